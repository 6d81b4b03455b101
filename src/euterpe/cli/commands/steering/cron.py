"""`euterpe cron`: crons as data."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import click

from euterpe.backends.engines import Backend
from euterpe.cli.apps import load_queue
from euterpe.cli.output import note, print_json, print_line, print_table
from euterpe.cli.session import CliSession, database_options, json_option
from euterpe.cli.values import UTC_INSTANT
from euterpe.model.cron import CronRow
from euterpe.queue.definition.cron import check_times
from euterpe.queue.queue import Queue
from euterpe.queue.steering.crons import CronJob, cron_job, cron_named


@click.group()
def cron() -> None:
    """List, pause, resume, edit and run crons. Workers declare theirs when they start."""


@cron.command("list")
@json_option
@database_options
@click.pass_obj
def list_(session: CliSession, as_json: bool) -> None:
    """Show all crons with their last and next ticks."""
    now = datetime.now(UTC)
    found = [cron_job(row, now) for row in session.ask(_rows)]
    if as_json:
        print_json({"crons": [_document(each) for each in found]})
    elif not found:
        note("No worker has declared a cron yet.")
    else:
        rows = [
            [c.name, c.expression, c.tz, c.missed, _state(c), _time(c.last_tick), _time(c.next_tick)] for c in found
        ]
        print_table(("name", "expression", "zone", "missed", "state", "last", "next"), rows, flexible="name")


@cron.command()
@click.argument("name")
@database_options
@click.pass_obj
def pause(session: CliSession, name: str) -> None:
    """Stop submitting the cron NAME. NAME is the name of a cron, or of a job type that has one cron."""

    async def act(backend: Backend) -> str:
        found = cron_named(await _rows(backend), name)
        await backend.store.crons.pause(found.name)
        return found.name

    print_line(f"paused {session.ask(act)}; workers know within ten seconds")


@cron.command()
@click.argument("name")
@database_options
@click.pass_obj
def resume(session: CliSession, name: str) -> None:
    """Submit the cron NAME again from now on. Ticks during the pause are left out."""

    async def act(backend: Backend) -> str:
        found = cron_named(await _rows(backend), name)
        await backend.store.crons.resume(found.name)
        return found.name

    print_line(f"resumed {session.ask(act)}; workers know within ten seconds")


@cron.command()
@click.argument("name")
@click.argument("expression")
@click.option("--tz", help="The time zone; default: the current one.")
@database_options
@click.pass_obj
def edit(session: CliSession, name: str, expression: str, tz: str | None) -> None:
    """Give the cron NAME another EXPRESSION, until its code changes."""

    async def act(backend: Backend) -> str:
        check_times(expression, tz or "UTC")
        found = cron_named(await _rows(backend), name)
        await backend.store.crons.edit(found.name, expression, tz or found.tz)
        return found.name

    print_line(f"{session.ask(act)}: {expression}; workers know within ten seconds")


@cron.command()
@click.argument("name")
@database_options
@click.pass_obj
def forget(session: CliSession, name: str) -> None:
    """Delete a cron that no code declares any more."""

    async def act(backend: Backend) -> str:
        found = cron_named(await _rows(backend), name)
        await backend.store.crons.forget(found.name)
        return found.name

    print_line(f"forgot {session.ask(act)}")


@cron.command()
@click.argument("name")
@click.option("--app", required=True, metavar="MODULE:QUEUE", help="Your queue, which declares the cron.")
@click.option(
    "--since", type=UTC_INSTANT, metavar="TIME", help="Submit every tick since then (UTC), instead of one now."
)
@click.option("--until", type=UTC_INSTANT, metavar="TIME", help="With --since: the last tick (UTC); default: now.")
def run(name: str, app: str, since: datetime | None, until: datetime | None) -> None:
    """Submit the cron NAME now, or all ticks of a period. A tick that was submitted before is not submitted again."""
    submitted = asyncio.run(_run(load_queue(app), name, since, until))
    fresh = sum(not replayed for _, replayed in submitted)
    print_line(f"{fresh} submitted, {len(submitted) - fresh} were there already")
    for job_id, replayed in submitted:
        if not replayed:
            print_line(job_id)


async def _run(queue: Queue, name: str, since: datetime | None, until: datetime | None) -> list[tuple[str, bool]]:
    async with queue:
        jobs = await queue.crons.run(name, since=since, until=until)
        return [(job.id, job.replayed) for job in jobs]


async def _rows(backend: Backend) -> list[CronRow]:
    return await backend.store.crons.list()


def _state(found: CronJob) -> str:
    return "paused" if found.paused else "edited" if found.edited else "on"


def _time(time: datetime | None) -> str:
    return "-" if time is None else f"{time:%Y-%m-%d %H:%M:%S}"


def _document(found: CronJob) -> dict[str, object]:
    return {
        "name": found.name,
        "type": found.type,
        "expression": found.expression,
        "tz": found.tz,
        "missed": found.missed,
        "paused": found.paused,
        "edited": found.edited,
        "last_tick": None if found.last_tick is None else found.last_tick.isoformat(),
        "next_tick": None if found.next_tick is None else found.next_tick.isoformat(),
    }
