"""`euterpe config`: what the configuration is in effect, and a file to start from."""

from __future__ import annotations

import click

from euterpe.cli.output import print_json, print_table
from euterpe.cli.session import CliSession, database_options, json_option
from euterpe.config.effective import effective
from euterpe.config.loading import every_key
from euterpe.config.reference import example


@click.group()
def config() -> None:
    """Show the configuration, or print an example file."""


@config.command()
@json_option
@database_options
@click.pass_obj
def show(session: CliSession, as_json: bool) -> None:
    """Show every key with its value and the source of the value. Secrets are masked.

    The source is a line of the file, an environment variable, --engine, or the default."""
    session.needed = every_key
    entries = effective(session.loaded)
    if session.engine is not None:
        entries = [entry._replace(source="--engine") if entry.key == "engine.url" else entry for entry in entries]
    if as_json:
        print_json([entry._asdict() for entry in entries])
        return
    print_table(["key", "value", "source"], entries, flexible="value")


@config.command(name="example")
def print_example() -> None:
    """Print a file with every key, its default and its meaning: euterpe config example > euterpe.yaml"""
    click.echo(example(), nl=False)
