"""`euterpe submit` and `euterpe status`: hand a job in, and ask how it is."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import click

from euterpe.backends.engines import Backend, is_redis
from euterpe.cli.apps import load_queue
from euterpe.cli.commands.jobs import print_job
from euterpe.cli.output import note, print_json, print_line
from euterpe.cli.session import CliSession, database_options, json_option, prepare_folder
from euterpe.cli.values import DURATION, INSTANT, JOB_ID, JSON, PAIR
from euterpe.model.job import JobRow
from euterpe.model.priority import PRIORITY_NAMES
from euterpe.model.reading.document import job_document
from euterpe.model.state import State
from euterpe.queue.handle import JobHandle
from euterpe.queue.queue import Queue, core_of


@click.command()
@click.argument("job_type", metavar="TYPE")
@click.argument("payload", metavar="[JSON]", type=JSON, default="{}")
@click.option("--queue", "queue_name", metavar="NAME", help="The queue; default: default.")
@click.option("--priority", type=click.Choice(PRIORITY_NAMES), help="The priority; default: normal.")
@click.option("--delay", metavar="DURATION", help="Start after this delay, such as 5m.")
@click.option("--run-at", type=INSTANT, metavar="TIME", help="Start at this time (RFC 3339).")
@click.option("--max-attempts", type=int, metavar="N", help="The number of attempts; default: 3.")
@click.option("--timeout", metavar="DURATION", help="The time limit of one attempt; default: 30m.")
@click.option("--idempotency-key", metavar="KEY", help="A repeated submit with this key returns the same job.")
@click.option("--correlation-id", metavar="ID", help="Your own id for this job.")
@click.option(
    "--tag", "tags", type=PAIR, multiple=True, metavar="NAME=VALUE", help="A tag; you can repeat this option."
)
@click.option("--depends-on", type=JOB_ID, multiple=True, metavar="JOB_ID", help="Wait for this job; repeatable.")
@click.option("--dependency", type=click.Choice(["after", "after_any", "chain", "fan_in"]), help="How the job waits.")
@click.option("--callback-url", metavar="URL", help="The URL for signed webhooks about this job.")
@click.option("--app", metavar="MODULE:QUEUE", help="Your queue, for its checks and defaults.")
@click.option("--wait", type=DURATION, metavar="DURATION", help="Wait for the end; exit 1 unless it completed.")
@json_option
@database_options
@click.pass_obj
def submit(
    session: CliSession,
    /,
    job_type: str,
    payload: Any,
    app: str | None,
    wait: int | None,
    tags: tuple[tuple[str, str], ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Submit a job: TYPE and its payload as JSON (`-` reads standard input)."""
    options = {name: value for name, value in given.items() if value not in (None, ())}
    if "queue_name" in options:
        options["queue"] = options.pop("queue_name")
    if tags:
        options["tags"] = dict(tags)
    if app is None:
        prepare_folder(session.url, create=True)
        queue = Queue(session.url, payload_limit=session.config.engine.max_payload_bytes)
    else:
        queue = load_queue(app)
    if is_redis(queue.url):
        from euterpe.service.roles import use_configured_redis  # Roles take a while to load, and are for this alone.

        use_configured_redis(session.config, queue)
    handle, job = asyncio.run(_submit(queue, job_type, payload, options, wait))
    _show(handle, job, as_json=as_json)


async def _submit(
    queue: Queue, job_type: str, payload: Any, options: dict[str, Any], wait_us: int | None
) -> tuple[JobHandle[Any], JobRow | None]:
    async with queue:
        handle = await queue.submit(job_type, payload, **options)
        if wait_us is None:
            return handle, None
        with suppress(TimeoutError):
            await handle.wait(wait_us / 1e6)
        return handle, await core_of(queue).get(handle.id)


def _show(handle: JobHandle[Any], job: JobRow | None, *, as_json: bool) -> None:
    if job is not None:
        print_json(job_document(job)) if as_json else print_job(job)
        if job.state is not State.COMPLETED:
            note(f"euterpe: job {job.id} is {job.state} and not completed; see: euterpe jobs why {job.id}")
            raise click.exceptions.Exit(1)
    elif as_json:
        print_json(
            {
                "job_id": handle.id,
                "type": handle.type,
                "state": str(handle.state),
                "created_at": handle.created_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
                "replayed": handle.replayed,
            }
        )
    else:
        print_line(f"{'already submitted' if handle.replayed else 'submitted'}  {handle.id}  {handle.state}")
        note(f"next: euterpe status {handle.id}")


@click.command()
@click.argument("job_id", type=JOB_ID)
@json_option
@database_options
@click.pass_obj
def status(session: CliSession, job_id: str, as_json: bool) -> None:
    """Show the status of a job: state, attempt, progress, result or error."""

    async def question(backend: Backend) -> JobRow:
        return await backend.store.get(job_id)

    job = session.ask(question)
    print_json(job_document(job)) if as_json else print_job(job)
