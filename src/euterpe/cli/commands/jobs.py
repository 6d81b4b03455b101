"""`euterpe jobs`: look at jobs, and steer them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import click
import msgspec

from euterpe.backends.engines import Backend
from euterpe.cli.commands.bulk.matching import act_on_matching, check_ids_or_query, query_options
from euterpe.cli.documents import job_with_attempts
from euterpe.cli.output import age, confirm, note, print_fields, print_json, print_line, print_table, span
from euterpe.cli.session import CliSession, database_options, json_option, yes_option
from euterpe.cli.values import JOB_ID, PAIR
from euterpe.model.bulk import Action
from euterpe.model.claims.attempt_log import AttemptLog
from euterpe.model.errors import EuterpeError, UnprocessableRow
from euterpe.model.job import AttemptRow, JobRow, read_error
from euterpe.model.priority import PRIORITY_NAMES, parse_priority
from euterpe.model.reading.document import job_document, rfc3339
from euterpe.model.reading.job_query import joined, parse_query
from euterpe.model.reading.readable import is_json
from euterpe.model.reading.views import SCAN_LIMIT, Search, SearchPage
from euterpe.model.state import State
from euterpe.model.submitting.changes import Changes

STATES = click.Choice([str(state) for state in State])


@click.group()
def jobs() -> None:
    """List, show, explain, cancel, retry, replay, update and dead-letter jobs."""


@jobs.command("list")
@click.option(
    "-q", "--query", metavar="QUERY", help="Such as: state:failed type:report.* tag.team:a error:timeout created:<1h"
)
@click.option("--state", type=STATES, help="Only jobs in this state.")
@click.option("--type", "job_type", metavar="TYPE", help="Only jobs of this type.")
@click.option("--queue", metavar="NAME", help="Only jobs of this queue.")
@click.option("--tag", type=PAIR, metavar="NAME=VALUE", help="Only jobs with this tag.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Show at most this many.")
@click.option("--cursor", metavar="CURSOR", help="Continue after an earlier page.")
@json_option
@database_options
@click.pass_obj
def list_jobs(
    session: CliSession,
    query: str | None,
    state: str | None,
    job_type: str | None,
    queue: str | None,
    tag: tuple[str, str] | None,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List jobs, newest first."""
    criteria = Search(
        state=State(state) if state else None,
        type=job_type,
        queue=queue,
        tag=tag,
        limit=limit,
        cursor=cursor,
        scan_limit=SCAN_LIMIT,
    )
    if query is not None:
        criteria = joined(parse_query(query, time.time_ns() // 1000), criteria)
    show_page(session.ask(lambda backend: backend.store.search(criteria)), as_json=as_json)


def show_page(page: SearchPage, *, as_json: bool, nothing: str = "No jobs.") -> None:
    """A page of jobs as a table or as the API's document."""
    if as_json:
        print_json({"jobs": [job_document(job) for job in page.jobs], "cursor": page.cursor})
        return
    if page.jobs:
        print_jobs(page.jobs)
    if page.cursor is not None:
        so_far = "" if page.jobs else "none so far; "
        note(f"{so_far}more: add --cursor {page.cursor}")
    elif not page.jobs:
        note(nothing)


def print_jobs(shown: Sequence[JobRow]) -> None:
    print_table(
        ("job_id", "type", "state", "attempts", "age"),
        [
            (job.id, job.type, job.state, f"{job.attempt_count}/{job.max_attempts}", age(job.created_at))
            for job in shown
        ],
        flexible="type",
    )


@jobs.command()
@click.argument("job_id", type=JOB_ID)
@click.option("--logs", "with_logs", is_flag=True, help="Also show what its handler logged, by attempt.")
@json_option
@database_options
@click.pass_obj
def show(session: CliSession, job_id: str, with_logs: bool, as_json: bool) -> None:
    """Show a job with its payload, its result and all its attempts."""

    async def question(backend: Backend) -> tuple[JobRow, list[AttemptRow], list[AttemptLog] | None]:
        store = backend.store
        logs = await store.attempt_logs(job_id) if with_logs else None
        return await store.get(job_id), await store.attempts(job_id), logs

    job, attempts, logs = session.ask(question)
    if as_json:
        print_json(job_with_attempts(job, attempts, logs))
        return
    print_job(job)
    print_fields([("payload", _body(job))])
    if attempts:
        print_line()
        print_table(
            ("attempt", "outcome", "took", "worker", "error"),
            [(a.attempt, a.outcome or "running", _took(a), _short(a.worker_id), _message(a.error)) for a in attempts],
            flexible="error",
        )
        if stack := _stack(attempts[-1].error):
            print_line()
            for line in stack.splitlines():
                print_line(line)
    if logs is not None:
        _print_logs(attempts, logs)


def _print_logs(attempts: list[AttemptRow], logs: list[AttemptLog]) -> None:
    numbers = {attempt.claim_version: attempt.attempt for attempt in attempts}
    for log in logs:
        print_line()
        older = f" ({log.dropped:,} older lines are not kept)" if log.dropped else ""
        print_line(f"log of attempt {numbers.get(log.claim_version, '?')}{older}")
        for line in log.lines:
            print_line(f"{rfc3339(line.at)}  {line.level:<8} {line.logger}: {line.message}")
    if not logs:
        note("nothing is kept of its log: no attempt that has ended logged anything, or worker.log_lines is 0")


def print_job(job: JobRow) -> None:
    """The state of one job, a line for each thing worth knowing."""
    progress = None
    if job.progress is not None and job.state is State.RUNNING:
        progress = f"{job.progress:g} %" + (f"  {job.progress_message}" if job.progress_message else "")
    print_fields(
        [
            ("job_id", job.id),
            ("type", job.type),
            ("state", job.state),
            ("stage", job.stage if job.state is State.RUNNING else None),
            ("progress", progress),
            ("attempt", f"{job.attempt_count} of {job.max_attempts}"),
            ("queue", f"{job.queue} ({PRIORITY_NAMES[job.priority]})"),
            ("created", _moment(job.created_at)),
            ("due", _moment(job.run_at) if job.state in (State.DELAYED, State.RETRYING) else None),
            ("waits for", f"{job.pending_dependencies} jobs" if job.state is State.PENDING else None),
            ("started", _moment(job.started_at)),
            ("ended", _moment(job.completed_at)),
            ("worker", job.worker_id if job.state is State.RUNNING else None),
            ("tags", _tags(job)),
            ("replay of", job.replay_of),
            ("result", job.result.decode(errors="replace") if job.result is not None else None),
            ("error", _message(job.error)),
        ]
    )


def _moment(at_us: int | None) -> str | None:
    text = rfc3339(at_us)
    return None if text is None else f"{text[:19].replace('T', ' ')} UTC ({_distance(at_us or 0)})"


def _distance(at_us: int) -> str:
    away_us = time.time_ns() // 1000 - at_us
    return f"{span(away_us)} ago" if away_us >= 0 else f"in {span(-away_us)}"


def _short(worker_id: str | None) -> str | None:
    """A worker's name and the beginning of its UUID: enough to tell two apart; `--json` has all of it."""
    name, colon, boot_uuid = (worker_id or "").rpartition(":")
    return f"{name}:{boot_uuid[:8]}" if colon else worker_id


def _took(attempt: AttemptRow) -> str:
    if attempt.ended_at is None:
        return ""
    seconds = (attempt.ended_at - attempt.started_at) / 1e6
    return f"{seconds:.3f}s" if seconds < 10 else span(attempt.ended_at - attempt.started_at)


def _tags(job: JobRow) -> str | None:
    try:
        return " ".join(f"{key}={value}" for key, value in job.tags.items()) or None
    except UnprocessableRow:
        return "cannot be read"


def _message(error: str | None) -> str | None:
    if error is None:
        return None
    document = read_error(error)
    return f"{document.get('message')} ({document.get('code')})"


def _stack(error: str | None) -> str | None:
    """Where the latest attempt failed, if it did."""
    stack = None if error is None else read_error(error).get("stack")
    return stack if isinstance(stack, str) else None


def _body(job: JobRow) -> str:
    if job.payload_format != "json":
        return f"<{len(job.payload)} bytes>"
    return job.payload.decode() if is_json(job.payload) else f"<{len(job.payload)} bytes that cannot be read as JSON>"


@jobs.command()
@click.argument("job_id", type=JOB_ID)
@json_option
@database_options
@click.pass_obj
def why(session: CliSession, job_id: str, as_json: bool) -> None:
    """Say in one sentence why a job waits, or how it ended."""
    explanation = session.ask(lambda backend: backend.store.why(job_id))
    if as_json:
        print_json(msgspec.to_builtins(explanation))
    else:
        print_line(explanation.sentence)


@jobs.command()
@click.argument("job_ids", metavar="[JOB_ID...]", type=JOB_ID, nargs=-1)
@query_options
@click.option("--force", is_flag=True, help="Take a running job away from its worker at once.")
@yes_option
@json_option
@database_options
@click.pass_obj
def cancel(
    session: CliSession,
    job_ids: tuple[str, ...],
    query: str | None,
    detach: bool,
    force: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Cancel jobs, or all jobs that match a query. A running job is asked to stop."""
    check_ids_or_query(job_ids, query, detach=detach)
    if query is not None:
        act_on_matching(session, Action.CANCEL, query, force=force, yes=yes, detach=detach, as_json=as_json)
        return
    confirm(f"Cancel {_count(job_ids)}?", yes=yes)

    async def one(backend: Backend, job_id: str) -> dict[str, object]:
        state = await backend.store.cancel(job_id, force=force)
        return {"job_id": job_id, "state": str(state), "cancel_requested": state is State.RUNNING}

    each_of(session, job_ids, one, as_json=as_json)


@jobs.command()
@click.argument("job_ids", metavar="[JOB_ID...]", type=JOB_ID, nargs=-1)
@query_options
@click.option("--yes", "-y", is_flag=True, help="With --query: do not ask for confirmation.")
@json_option
@database_options
@click.pass_obj
def retry(
    session: CliSession, job_ids: tuple[str, ...], query: str | None, detach: bool, yes: bool, as_json: bool
) -> None:
    """Run ended jobs again, or all jobs that match a query. A failed job with attempts left keeps its id; any other
    becomes a new job."""
    check_ids_or_query(job_ids, query, detach=detach)
    if query is not None:
        act_on_matching(session, Action.RETRY, query, yes=yes, detach=detach, as_json=as_json)
    else:
        each_of(session, job_ids, retry_one, as_json=as_json)


@jobs.command()
@click.option("-q", "--query", required=True, metavar="QUERY", help="Such as: state:dead_letter type:report.*")
@click.option("--detach", is_flag=True, help="Do not wait for the operation to end.")
@yes_option
@json_option
@database_options
@click.pass_obj
def replay(session: CliSession, query: str, detach: bool, yes: bool, as_json: bool) -> None:
    """Run all ended jobs that match a query again, each as a new job."""
    act_on_matching(session, Action.REPLAY, query, yes=yes, detach=detach, as_json=as_json)


@jobs.command("dead-letter")
@click.argument("job_ids", metavar="JOB_ID...", type=JOB_ID, nargs=-1, required=True)
@yes_option
@json_option
@database_options
@click.pass_obj
def dead_letter(session: CliSession, job_ids: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Move failed jobs to the dead letters, because a retry would not help."""
    confirm(f"Send {_count(job_ids)} to the dead letter?", yes=yes)
    each_of(session, job_ids, dead_letter_one, as_json=as_json)


@jobs.command()
@click.argument("job_id", metavar="JOB_ID", type=JOB_ID)
@click.option("--priority", type=click.Choice(PRIORITY_NAMES), help="The new priority; only while the job waits.")
@click.option(
    "--tag", "tags", multiple=True, metavar="NAME=VALUE", help="Replace all tags; you can repeat this option."
)
@click.option("--correlation-id", help="The new correlation id.")
@click.option("--callback-url", help="The new URL for its webhooks.")
@json_option
@database_options
@click.pass_obj
def update(session: CliSession, /, job_id: str, tags: tuple[str, ...], as_json: bool, **options: str | None) -> None:
    """Change the priority, tags, correlation id or callback URL of a job. Its type and payload never change."""
    changes: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if "priority" in changes:
        changes["priority"] = int(parse_priority(changes["priority"]))
    if tags:
        changes["tags"] = dict(_name_and_value(tag) for tag in tags)

    async def one(backend: Backend, job_id: str) -> dict[str, object]:
        job = await backend.store.update(job_id, Changes(**changes))
        return {"job_id": job_id, "state": str(job.state)}

    each_of(session, (job_id,), one, as_json=as_json)


def _name_and_value(tag: str) -> tuple[str, str]:
    name, separator, value = tag.partition("=")
    if not separator:
        raise click.UsageError(f"--tag {tag}: write NAME=VALUE")
    return name, value


async def dead_letter_one(backend: Backend, job_id: str) -> dict[str, object]:
    return {"job_id": job_id, "state": str(await backend.store.dead_letter(job_id))}


async def retry_one(backend: Backend, job_id: str) -> dict[str, object]:
    job = await backend.store.retry(job_id)
    replays = job.id if job.id != job_id else None
    return {"job_id": job_id, "state": str(job.state), "new_job_id": replays}


def each_of(
    session: CliSession,
    job_ids: Sequence[str],
    act: Callable[[Backend, str], Awaitable[dict[str, object]]],
    *,
    as_json: bool,
) -> None:
    """Do it to each job and tell each end; exit 1 when one of them was refused."""

    async def all_of_them(backend: Backend) -> list[dict[str, object]]:
        documents = []
        for job_id in job_ids:
            try:
                documents.append(await act(backend, job_id))
            except EuterpeError as error:
                documents.append({"job_id": job_id, "error": str(error)})
        return documents

    documents = session.ask(all_of_them)
    if as_json:
        print_json({"jobs": documents})
    for document in documents if not as_json else []:
        if "error" in document:
            note(f"euterpe: {document['error']}")
        else:
            print_line(f"{document['job_id']}  {_came_of(document)}")
    if any("error" in document for document in documents):
        raise click.exceptions.Exit(1)


def _came_of(document: dict[str, object]) -> str:
    new_job_id = document.get("new_job_id")
    if document.get("replayed_before"):
        return f"replayed before, as job {new_job_id}"
    stopping = " (asked to stop)" if document.get("cancel_requested") else ""
    behind = document.get("dependents")
    dependents = f", with {len(behind)} that depend on it" if isinstance(behind, list) and behind else ""
    return f"{document['state']}{stopping}" + (f"  as new job {new_job_id}" if new_job_id else "") + dependents


def _count(job_ids: Sequence[str]) -> str:
    return f"job {job_ids[0]}" if len(job_ids) == 1 else f"{len(job_ids)} jobs"
