"""`euterpe demo`: play the demo in a folder of its own and exit 0 only if everything was proved."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from pathlib import Path

import click

from euterpe.cli.output import note


@click.command()
@click.option("--keep", is_flag=True, help="Keep the folder with the database and the logs.")
def demo(keep: bool) -> None:
    """Show the queue at work, with a worker killed in the middle.

    This takes about half a minute, and changes nothing outside a temporary folder. At the end it prints what it proved.
    """
    folder = Path(tempfile.mkdtemp(prefix="euterpe-demo-"))
    url = f"sqlite:///{folder / 'demo.db'}"
    os.environ["EUTERPE_DEMO_URL"] = url  # before the import: the demo's app is an app like any other
    from euterpe.cli.demo.show import perform
    from euterpe.cli.demo.steps import DemoFailed

    started = time.monotonic()
    try:
        proved = asyncio.run(perform(folder, url))
    except DemoFailed as error:
        proved = False
        note(f"euterpe: {error}")
    click.echo(
        f"\n{'All of it was proved' if proved else 'Not all of it was proved'} in {time.monotonic() - started:.0f} s."
    )
    if proved and not keep:
        shutil.rmtree(folder)
        click.echo("Next: ./run demo --keep, to look at it in the dashboard; ./run starts the system for you.")
    else:
        click.echo(f"The database and the logs are in {folder}")
        click.echo(f"Look at it in the dashboard: ENGINE_URL={url} .venv/bin/euterpe --role=api")
    raise click.exceptions.Exit(0 if proved else 1)
