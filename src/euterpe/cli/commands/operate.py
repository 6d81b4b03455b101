"""What operators ask and do: `stats`, `peek`, `pause`, `resume`, `migrate`."""

from __future__ import annotations

import asyncio

import click

from euterpe.backends.engines import Backend, connect
from euterpe.cli.commands.jobs import print_jobs
from euterpe.cli.documents import stats_document
from euterpe.cli.output import note, print_json, print_line, print_table, span
from euterpe.cli.session import CliSession, database_options, json_option, prepare_folder
from euterpe.cli.values import NAMES
from euterpe.config import redact_url
from euterpe.model.job import JobRow
from euterpe.model.reading.document import job_document
from euterpe.model.reading.views import StoreStats
from euterpe.model.state import State

SHOWN = (State.SCHEDULED, State.RUNNING, State.RETRYING, State.DELAYED, State.PENDING)
ENDED = (State.COMPLETED, State.FAILED, State.DEAD_LETTER, State.CANCELLED)


@click.command()
@json_option
@database_options
@click.pass_obj
def stats(session: CliSession, as_json: bool) -> None:
    """Count jobs by queue and state, with ages and rates."""

    async def question(backend: Backend) -> tuple[StoreStats, list[tuple[str, str]]]:
        return await backend.store.stats(), [(row[0], row[1]) for row in await backend.store.paused()]

    found, paused = session.ask(question)
    if as_json:
        print_json(stats_document(found, paused))
        return
    if not found.by_queue:
        note("No jobs.")
    else:
        _print_counts(found)
    if found.estimated:
        note(f"estimated from a sample, as there are many: {', '.join(found.estimated)}")
    ended = ", ".join(f"{count} {state}" for state, count in found.per_minute.items() if count)
    print_line(f"last minute: {ended or 'nothing ended'}")
    waiting = ", ".join(f"{count} {state}" for state, count in sorted(found.outbox.items()) if count)
    print_line(f"webhooks: {waiting or 'none waiting'}")
    for kind, name in paused:
        print_line(f"paused: {kind} {name}  (euterpe resume --{kind} {name})")


def _print_counts(found: StoreStats) -> None:
    columns = [str(state) for state in (*SHOWN, *ENDED) if found.by_state.get(state)]
    rows: list[list[object]] = []
    for queue, states in sorted(found.by_queue.items()):
        oldest = span(found.oldest_age_us[queue]) if queue in found.oldest_age_us else "-"
        rows.append([queue, *(states.get(column, 0) for column in columns), oldest])
    print_table(("queue", *columns, "oldest"), rows, flexible="queue")


@click.command()
@click.option("--queues", type=NAMES, metavar="A,B", help="The queues in order; default: worker.consume.")
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="Show at most this many.")
@json_option
@database_options
@click.pass_obj
def peek(session: CliSession, queues: tuple[str, ...] | None, limit: int, as_json: bool) -> None:
    """Show what a worker would claim next, without claiming it."""
    wanted = queues or session.config.worker.consume

    async def question(backend: Backend) -> list[JobRow]:
        return await backend.store.peek(wanted, limit)

    found = session.ask(question)
    if as_json:
        print_json({"jobs": [job_document(job) for job in found]})
    elif not found:
        note(f"Nothing is ready in {', '.join(wanted)}.")
    else:
        print_jobs(found)


def _kind_and_name(queue: str | None, job_type: str | None) -> tuple[str, str]:
    if queue is not None and job_type is None:
        return "queue", queue
    if job_type is not None and queue is None:
        return "type", job_type
    raise click.UsageError("name what: --queue NAME or --type TYPE, one of them")


@click.command()
@click.option("--queue", metavar="NAME", help="The queue to pause.")
@click.option("--type", "job_type", metavar="TYPE", help="The job type to pause.")
@database_options
@click.pass_obj
def pause(session: CliSession, queue: str | None, job_type: str | None) -> None:
    """Stop every worker from claiming a queue or a job type."""
    kind, name = _kind_and_name(queue, job_type)
    session.ask(lambda backend: backend.store.pause(kind, name), create=True)
    print_line(f"paused {kind} {name}; what runs already goes on")


@click.command()
@click.option("--queue", metavar="NAME", help="The queue to resume.")
@click.option("--type", "job_type", metavar="TYPE", help="The job type to resume.")
@database_options
@click.pass_obj
def resume(session: CliSession, queue: str | None, job_type: str | None) -> None:
    """Let workers claim a paused queue or job type again."""
    kind, name = _kind_and_name(queue, job_type)

    async def act(backend: Backend) -> None:
        await backend.store.resume(kind, name)
        backend.wakeups.announce([name] if kind == "queue" else session.config.worker.consume)

    session.ask(act)
    print_line(f"resumed {kind} {name}")


@click.command()
@json_option
@database_options
@click.pass_obj
def migrate(session: CliSession, as_json: bool) -> None:
    """Bring the database's schema up to date."""
    prepare_folder(session.url, create=True)
    applied = asyncio.run(connect(session.url).store.migrate())
    if as_json:
        print_json({"applied": applied})
    elif applied:
        print_line(f"{redact_url(session.url)}: applied {', '.join(applied)}")
    else:
        print_line(f"{redact_url(session.url)}: up to date")
