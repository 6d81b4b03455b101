"""`euterpe dlq`: the dead letters. Look at them, keep a copy, run them again, or throw them away."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, BinaryIO

import click
import msgspec

from euterpe.backends.engines import Backend
from euterpe.cli.commands.jobs import each_of, show_page
from euterpe.cli.documents import job_with_attempts
from euterpe.cli.output import confirm, note, print_json, print_line, shown_json
from euterpe.cli.session import CliSession, database_options, json_option, yes_option
from euterpe.cli.values import DURATION, JOB_ID
from euterpe.model.job import JobRow
from euterpe.model.reading.views import Search
from euterpe.model.state import State
from euterpe.model.submitting.batch import SubmitResult

PAGE = 200


@dataclass(frozen=True, slots=True)
class Which:
    """The dead letters that a command is about."""

    ids: tuple[str, ...]
    all_of_them: bool
    job_type: str | None
    queue: str | None
    older_than_us: int | None

    async def find(self, backend: Backend) -> AsyncIterator[JobRow]:
        for job_id in self.ids:
            yield await backend.store.get(job_id)
        if self.ids:
            return
        ended_before = None if self.older_than_us is None else await backend.store.now_us() - self.older_than_us
        dead = Search(
            state=State.DEAD_LETTER, type=self.job_type, queue=self.queue, ended_before=ended_before, limit=PAGE
        )
        cursor = None
        while True:
            page = await backend.store.search(msgspec.structs.replace(dead, cursor=cursor))
            for job in page.jobs:
                yield job
            cursor = page.cursor
            if cursor is None:
                return

    async def find_ids(self, backend: Backend) -> list[str]:
        return list(self.ids) or [job.id async for job in self.find(backend)]

    async def find_ids_by_cause(self, backend: Backend) -> list[str]:
        """What ended by itself first: it takes along what ended because of it."""
        found = {job.id: _ended_by_another(job) async for job in self.find(backend)}
        return sorted(found, key=found.__getitem__)


def which(*, needed: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options that choose dead letters, handed on as one `Which`. `needed`: choosing nothing is bad usage."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def command(
            *args: Any,
            job_ids: tuple[str, ...],
            all_of_them: bool,
            job_type: str | None,
            queue: str | None,
            older_than: int | None,
            **kwargs: Any,
        ) -> None:
            chosen = Which(job_ids, all_of_them, job_type, queue, older_than)
            filtered = all_of_them or job_type is not None or queue is not None or older_than is not None
            if job_ids and filtered:
                raise click.UsageError("name jobs by their ids, or choose them by --all, --type, --queue, --older-than")
            if needed and not job_ids and not filtered:
                raise click.UsageError("name jobs by their ids, or say --all")
            function(*args, chosen=chosen, **kwargs)

        decorated: Callable[..., None] = command
        for option in (
            click.option(
                "--older-than", type=DURATION, metavar="DURATION", help="Only jobs that ended at least this long ago."
            ),
            click.option("--queue", metavar="NAME", help="Only jobs of this queue."),
            click.option("--type", "job_type", metavar="TYPE", help="Only jobs of this type."),
            click.option("--all", "all_of_them", is_flag=True, help="All dead letters."),
            click.argument("job_ids", metavar="[JOB_ID...]", type=JOB_ID, nargs=-1),
        ):
            decorated = option(decorated)
        return decorated

    return decorate


@click.group()
def dlq() -> None:
    """List, replay, export and purge dead letters."""


@dlq.command("list")
@click.option("--type", "job_type", metavar="TYPE", help="Only jobs of this type.")
@click.option("--queue", metavar="NAME", help="Only jobs of this queue.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Show at most this many.")
@click.option("--cursor", metavar="CURSOR", help="Continue after an earlier page.")
@json_option
@database_options
@click.pass_obj
def list_dead(
    session: CliSession, job_type: str | None, queue: str | None, limit: int, cursor: str | None, as_json: bool
) -> None:
    """List dead letters, newest first."""
    criteria = Search(state=State.DEAD_LETTER, type=job_type, queue=queue, limit=limit, cursor=cursor)
    page = session.ask(lambda backend: backend.store.search(criteria))
    show_page(page, as_json=as_json, nothing="No dead letters.")


@dlq.command()
@which(needed=True)
@json_option
@database_options
@click.pass_obj
def replay(session: CliSession, chosen: Which, as_json: bool) -> None:
    """Run dead letters again, each as a new job. The dead letter stays until it is purged.

    Jobs that ended because of the dead letter are replayed too, and wait for it. If you repeat the command, it makes no
    second job; `jobs retry` makes a new one each time."""
    ids = session.ask(chosen.find_ids_by_cause)
    if not ids and not as_json:
        note("No dead letters.")
        return
    each_of(session, ids, replay_once, as_json=as_json)


async def replay_once(backend: Backend, job_id: str) -> dict[str, object]:
    replayed = await backend.store.replay(job_id)
    first = replayed.first
    new_job_id = first.job_id if isinstance(first, SubmitResult) else first.id if first.id != job_id else None
    return {
        "job_id": job_id,
        "state": str(first.state),
        "new_job_id": new_job_id,
        "replayed_before": isinstance(first, SubmitResult) and first.replayed,
        "dependents": [submitted.job_id for submitted in replayed.dependents],
    }


def _ended_by_another(job: JobRow) -> bool:
    error = job.error_document
    return error is not None and error.get("code") == "dependency_ended"


@dlq.command()
@which(needed=False)
@click.option("--out", type=click.File("wb", lazy=True), default="-", metavar="FILE", help="Default: standard output.")
@database_options
@click.pass_obj
def export(session: CliSession, chosen: Which, out: BinaryIO) -> None:
    """Write dead letters with all their attempts, as one JSON document per line."""

    async def write(backend: Backend) -> int:
        count = 0
        async for job in chosen.find(backend):
            document = job_with_attempts(job, await backend.store.attempts(job.id))
            out.write(shown_json(msgspec.json.encode(document)) + b"\n")
            count += 1
        return count

    note(f"{session.ask(write)} dead letters exported")


@dlq.command()
@which(needed=True)
@yes_option
@json_option
@database_options
@click.pass_obj
def purge(session: CliSession, chosen: Which, yes: bool, as_json: bool) -> None:
    """Delete dead letters permanently. To keep a copy, run `export` first."""
    ids = session.ask(chosen.find_ids)
    if ids:
        confirm(f"Throw away {len(ids)} dead letter{'s' if len(ids) != 1 else ''} for good?", yes=yes)

    async def throw_away(backend: Backend) -> list[str]:
        gone: list[str] = []
        for start in range(0, len(ids), PAGE):
            batch = ids[start : start + PAGE]
            gone += await backend.store.purge(batch)
        return gone

    gone = session.ask(throw_away)
    if as_json:
        print_json({"purged": gone})
    else:
        print_line(f"{len(gone)} dead letters purged")
