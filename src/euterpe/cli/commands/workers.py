"""`euterpe workers`: who is alive."""

from __future__ import annotations

import time

import click
import msgspec

from euterpe.backends.engines import Backend
from euterpe.cli.output import age, note, print_json, print_table
from euterpe.cli.session import CliSession, database_options, json_option
from euterpe.model.claims.presence import LATE_US, BreakerState, LiveWorker
from euterpe.wire.workers import worker_document


@click.group()
def workers() -> None:
    """List the workers that are alive."""


@workers.command("list")
@json_option
@database_options
@click.pass_obj
def list_(session: CliSession, as_json: bool) -> None:
    """Show every live worker: one that reported in the last minute, or whose leases are still renewed."""

    async def question(backend: Backend) -> list[LiveWorker]:
        return await backend.store.workers.list()

    found = session.ask(question)
    if as_json:
        print_json({"workers": [msgspec.to_builtins(worker_document(worker)) for worker in found]})
    elif not found:
        note("No worker is alive; `euterpe worker myapp:queue` starts one.")
    else:
        columns = ("worker", "busy", "queues", "types", "up", "seen", "state")
        print_table(columns, [_cells(worker) for worker in found], flexible="types")


def _cells(worker: LiveWorker) -> list[object]:
    facts = worker.facts
    types = "any" if facts.types is None else ",".join(facts.types)
    return [
        worker.worker_id,
        busy(worker),
        ",".join(facts.queues),
        types,
        age(worker.started_at),
        age(worker.seen_at),
        state(worker),
    ]


def busy(worker: LiveWorker) -> str:
    """Slots in use, of how many."""
    facts = worker.facts
    return "" if facts.running is None or facts.slots is None else f"{facts.running}/{facts.slots}"


def state(worker: LiveWorker) -> str:
    """What keeps it from claiming, if anything does."""
    blocked = worker.facts.blocked
    words = [] if worker.answers else ["not answering" if blocked is None else f"blocked in {blocked}"]
    words += ["silent"] if worker.answers and time.time() * 1e6 - worker.seen_at > LATE_US else []
    words += ["stopping"] if worker.facts.stopping else []
    for breaker in worker.facts.breakers:
        is_open = breaker.state is BreakerState.OPEN
        words.append(f"breaker of {breaker.name} {'open' if is_open else 'half open'}")
    return ", ".join(words) or "well"
