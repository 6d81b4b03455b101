"""Workers as pages show them: those that are alive, and those that hold jobs without having told of themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from euterpe.dashboard.layout import empty
from euterpe.dashboard.parts import html as h
from euterpe.dashboard.parts.formatting import duration, number
from euterpe.dashboard.parts.html import Html, joined
from euterpe.model.claims.presence import BreakerState, LiveWorker, WorkerFacts
from euterpe.model.reading.overview import Running

TYPES_SHOWN: Final = 6
STATES: Final = {BreakerState.OPEN: "open", BreakerState.HALF_OPEN: "half open"}


class WorkerLine(msgspec.Struct, frozen=True):
    """One worker; without `facts` only its jobs tell of it."""

    name: str
    held: list[Running]
    facts: WorkerFacts | None
    seen_at: int
    lost: bool
    """A lease of its is over."""
    silent_since: int | None
    """It tells nothing since then, and its leases are renewed all the same."""


def worker_lines(alive: Sequence[LiveWorker], running: Sequence[Running], now: int) -> list[WorkerLine]:
    """By name. How many jobs each holds is counted in the jobs themselves: that is true now."""
    held: dict[str, list[Running]] = {worker.worker_id: [] for worker in alive}
    for job in running:
        held.setdefault(job.worker_id or "unknown", []).append(job)
    known = {worker.worker_id: worker for worker in alive}
    lines = []
    for name, jobs in sorted(held.items()):
        worker = known.get(name)
        beats = [job.heartbeat_at or 0 for job in jobs]
        seen_at = max([*beats, 0 if worker is None else worker.seen_at])
        lost = any((job.lease_expires_at or 0) < now for job in jobs)
        silent_since = None if worker is None or worker.answers else worker.seen_at
        lines.append(WorkerLine(name, jobs, None if worker is None else worker.facts, seen_at, lost, silent_since))
    return lines


def slots(line: WorkerLine) -> str:
    """Slots in use, of how many."""
    total = None if line.facts is None else line.facts.slots
    return number(len(line.held)) if total is None else f"{number(len(line.held))} / {number(total)}"


def condition(line: WorkerLine, now: int) -> Html:
    if line.lost:
        return h.span("⚠ a lease is over", class_="flag warn")
    if line.silent_since is not None:
        told = f"⚠ not answering for {duration(max(0, now - line.silent_since))}"
        blocked = None if line.facts is None else line.facts.blocked
        told += f", blocked in {blocked}" if blocked is not None else ""
        return h.span(told, class_="flag warn", title="Its leases are renewed: a handler blocks the process.")
    if line.facts is not None and line.facts.stopping:
        return h.span("‖ stopping", class_="flag warn")
    if line.facts is not None and line.facts.breakers:
        told = ", ".join(f"{breaker.name} {STATES[breaker.state]}" for breaker in line.facts.breakers)
        return h.span(f"⚠ breaker of {told}", class_="flag warn")
    return h.span("✓ alive" if line.held else "✓ idle", class_="flag fine")


def about(line: WorkerLine) -> Html | None:
    """What it listens to and knows, and where it runs."""
    facts = line.facts
    if facts is None:
        return None
    known = "whatever it is given" if facts.types is None else ", ".join(facts.types[:TYPES_SHOWN])
    more = len(facts.types or ()) - TYPES_SHOWN
    where = " ".join(
        filter(None, (facts.host, f"pid {facts.pid}" if facts.pid else "", f"release {facts.version or 'unknown'}"))
    )
    return h.p(
        joined("takes from ", h.strong(", ".join(facts.queues)), "; knows ", h.strong(known)),
        f" and {more} more" if more > 0 else None,
        f"; {where}",
        class_="soft",
    )


def breakers_of(alive: Sequence[LiveWorker]) -> dict[str, str]:
    """By queue, in words; queues whose breakers are closed everywhere are left out."""
    told: dict[str, list[str]] = {}
    names = sorted({(breaker.queue, breaker.name) for worker in alive for breaker in worker.facts.breakers})
    for queue, name in names:
        tripped = [b for worker in alive for b in worker.facts.breakers if b.name == name]
        opened = sum(breaker.state is BreakerState.OPEN for breaker in tripped)
        word, count = ("open", opened) if opened else ("half open", len(tripped))
        listening = sum(queue in worker.facts.queues for worker in alive)
        told.setdefault(queue, []).append(f"of {name} {word} on {count} of {listening} workers")
    return {queue: "; ".join(texts) for queue, texts in told.items()}


def no_worker(sees_all: bool) -> Html:
    """A requester is not told of workers that do nothing for it."""
    if not sees_all:
        return empty("No worker runs a job of yours right now.")
    return empty("No worker is alive. If jobs wait, start one with ", h.code("euterpe worker"), ".")


def how_many(lines: Sequence[WorkerLine], sees_all: bool) -> str:
    at_work = f"{number(sum(bool(line.held) for line in lines))} at work"
    return f"{number(len(lines))} alive, {at_work}" if sees_all else at_work
