"""`euterpe outbox`: webhook events, how their delivery goes, and sending one again."""

from __future__ import annotations

import click

from euterpe.cli.documents import event_document
from euterpe.cli.output import age, confirm, note, print_json, print_line, print_table
from euterpe.cli.session import CliSession, database_options, json_option, yes_option
from euterpe.cli.values import EVENT_ID
from euterpe.model.errors import JobNotFound
from euterpe.ports import OutboxStore

PAGE = 500
STATES = click.Choice(["scheduled", "running", "retrying", "completed", "dead_letter"])


@click.group()
def outbox() -> None:
    """List webhook events and send them again."""


@outbox.command("list")
@click.option("--state", type=STATES, help="Only events in this state.")
@click.option("--job", "job_id", type=EVENT_ID, metavar="EVENT_ID", help="Only events of this job.")
@click.option("--requester", metavar="NAME", help="Only events of this requester.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Show at most this many.")
@click.option("--cursor", type=int, metavar="CURSOR", help="Continue after an earlier page.")
@json_option
@database_options
@click.pass_obj
def list_events(
    session: CliSession,
    state: str | None,
    job_id: str | None,
    requester: str | None,
    limit: int,
    cursor: int | None,
    as_json: bool,
) -> None:
    """List webhook events, newest first."""
    before = 2**62 if cursor is None else cursor
    found = session.ask(lambda backend: backend.store.outbox.search(requester, state, job_id, before, limit + 1))
    events = [event for _, event in found[:limit]]
    more = str(found[limit - 1][0]) if len(found) > limit else None
    if as_json:
        print_json({"events": [event_document(event) for event in events], "cursor": more})
    elif not events:
        note("No events.")
    else:
        print_table(
            ("event_id", "type", "state", "tries", "age", "error"),
            [(e.id, e.type, e.state, e.attempt_count, age(e.created_at), e.error) for e in events],
            flexible="error",
        )
        if more is not None:
            note(f"more: add --cursor {more}")


@outbox.command()
@click.argument("event_id", type=EVENT_ID, required=False)
@click.option("--all", "all_of_them", is_flag=True, help="All events whose delivery was given up.")
@click.option("--requester", metavar="NAME", help="With --all: only events of this requester.")
@yes_option
@json_option
@database_options
@click.pass_obj
def redeliver(
    session: CliSession, event_id: str | None, all_of_them: bool, requester: str | None, yes: bool, as_json: bool
) -> None:
    """Send an event again, with the same id and body and a new signature. --all sends all events that were given up."""
    if (event_id is None) is not all_of_them:
        raise click.UsageError("name one EVENT_ID, or say --all")
    if event_id is None:
        whose = f" of {requester}" if requester else ""
        confirm(f"Send every event{whose} that was given up again?", yes=yes)
        count = session.ask(lambda backend: redeliver_all(backend.store.outbox, requester))
        if as_json:
            print_json({"redelivered": count})
        else:
            print_line(f"{count} events are sent again")
        return
    if requester is not None:
        raise click.UsageError("--requester goes with --all")
    event = session.ask(lambda backend: backend.store.outbox.redeliver(event_id))
    if as_json:
        print_json(event_document(event))
    else:
        print_line(f"{event.id}  {event.state}")


async def redeliver_all(outbox_store: OutboxStore, requester: str | None) -> int:
    """Every event that was given up before this began is sent again, page by page; how many there were."""
    count, before = 0, 2**62
    while page := await outbox_store.search(requester, "dead_letter", None, before, PAGE):
        before = page[-1][0]
        for _, event in page:
            try:
                await outbox_store.redeliver(event.id)
            except JobNotFound:
                continue  # Pruned, or sent again by somebody else meanwhile.
            count += 1
    return count
