"""`euterpe top`: the queue, live, in a terminal."""

from __future__ import annotations

import asyncio

import click

from euterpe.cli.session import CliSession, database_options
from euterpe.model.extras import needing


@click.command()
@click.option(
    "--every", type=click.FloatRange(0.2, 60), default=1.0, show_default=True, help="Seconds between two updates."
)
@database_options
@click.pass_obj
def top(session: CliSession, every: float) -> None:
    """Watch queues, workers, running jobs and failures, live. Press `c` to cancel the selected job, `r` to retry it."""
    with needing("euterpe top", "top"):
        from euterpe.tui.app import TopApp

    async def run() -> None:
        async with session.opened() as backend:
            await TopApp(backend.store, every).run_async()

    asyncio.run(run())
