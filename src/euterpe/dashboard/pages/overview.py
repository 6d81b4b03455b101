"""The first page: what happens now, what waits, what went wrong."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from euterpe.dashboard.layout import FAILURES, HOME, JOBS, PageFrame, empty, grid, heading, panel
from euterpe.dashboard.page_server import NoQuery
from euterpe.dashboard.parts import html as h
from euterpe.dashboard.parts.charts import Throughput, percentiles, throughput, throughput_chart
from euterpe.dashboard.parts.formatting import GLYPHS, counted, duration, moment, number, share, state_words
from euterpe.dashboard.parts.html import Child, Html, joined
from euterpe.dashboard.parts.workers import breakers_of, condition, how_many, no_worker, slots, worker_lines
from euterpe.dashboard.sign_in import Visitor
from euterpe.model.failures.group import FailureGroups
from euterpe.model.priority import PRIORITY_NAMES
from euterpe.model.reading.job_query import query_text
from euterpe.model.reading.overview import Backlog, Count, Overview
from euterpe.model.reading.views import Search
from euterpe.model.state import State
from euterpe.ports import DashboardReads, Store
from euterpe.server.http.asgi import Request

ORDER: Final = (
    State.RUNNING,
    State.SCHEDULED,
    State.RETRYING,
    State.DELAYED,
    State.PENDING,
    State.COMPLETED,
    State.FAILED,
    State.DEAD_LETTER,
    State.CANCELLED,
)

FAILING: Final = 5
"""Causes of failures that are shown."""
WORKERS_SHOWN: Final = 10


class OverviewPage:
    """Made of one look at the database."""

    def __init__(self, store: Store, reads: DashboardReads) -> None:
        self._store = store
        self._reads = reads

    async def make(self, visitor: Visitor, _: NoQuery, __: Request) -> PageFrame:
        seen, failing, overdue_us = await asyncio.gather(
            self._reads.overview(visitor.sees),
            self._store.failure_groups(visitor.sees, FAILING),
            self._store.sweeps.overdue_us(),
        )
        body = joined(
            heading("Overview", h.span(_whose(visitor), class_="soft")),
            _tiles(seen.states),
            _first_steps() if not any(count.number for count in seen.states.values()) else None,
            h.div(
                h.div(_flow(throughput(seen.ends, seen.now)), _queues(seen), _failing(failing, seen)),
                h.div(
                    _times(seen),
                    _workers(seen, visitor),
                    _outbox(seen),
                    _housekeeping(overdue_us) if visitor.is_admin else None,
                ),
                class_="columns",
            ),
        )
        return PageFrame("Overview", body, HOME)


def _whose(visitor: Visitor) -> str:
    return "of all requesters" if visitor.is_admin else f"of requester {visitor.requester_id}"


def search_link(search: Search) -> str:
    return f"{JOBS}?{urlencode({'q': query_text(search)})}"


def _tiles(states: Mapping[State, Count]) -> Html:
    tiles = [
        h.li(
            h.a(
                h.span(counted(states[state]), class_="count"),
                h.span(h.span(GLYPHS[state], class_="sign", aria_hidden="true"), state_words(state), class_="label"),
                href=search_link(Search(state=state)),
                class_=f"tile s-{state}" + ("" if states[state].number else " none"),
            )
        )
        for state in ORDER
    ]
    return h.ul(tiles, class_="tiles", aria_label="Jobs by state")


def _first_steps() -> Html:
    return empty(
        "There are no jobs yet. Submit one with ",
        h.code("euterpe submit euterpe.echo"),
        ", from your code, or with the command that ",
        h.code("./run"),
        " printed when it started; it shows up here at once.",
    )


def _flow(shown: Throughput) -> Html:
    ended = shown.good + shown.bad
    per_minute = shown.good / (shown.known_s / 60)
    rate = f"{per_minute:.0f}" if per_minute >= 10 else f"{per_minute:.1f}"
    figures = h.dl(
        _figure("completed a minute", rate),
        _figure("failed", f"{share(shown.bad, ended)}", "bad" if shown.bad else ""),
        _figure("ended", number(ended)),
        class_="figures",
    )
    back = duration(shown.window_s * 1_000_000)
    ends = h.div(h.span(f"{back} ago"), h.span(_legend()), h.span("now"), class_="under")
    return panel(
        "Throughput", figures, throughput_chart(shown), ends, hint=f"the last {duration(shown.known_s * 1_000_000)}"
    )


def _legend() -> Html:
    return joined(h.span("completed", class_="key good"), h.span("failed or dead letter", class_="key bad"))


def _figure(name: str, value: Child, kind: str = "") -> Html:
    return h.div(h.dt(name), h.dd(value, class_=kind or None))


def _times(seen: Overview) -> Html:
    rows = []
    for name, kind, values in (
        ("Claim latency", "waited", [t.waited_us for t in seen.times]),
        ("Run time", "ran", [t.ran_us for t in seen.times]),
    ):
        found = percentiles(values)
        if found is not None:
            cells = [h.td(duration(value), class_="num") for value in found]
            rows.append(h.tr(h.th(h.span(name, class_=f"key {kind}"), scope="row"), cells))
    if not rows:
        return panel("Times", empty("Nothing has completed yet, so there is nothing to measure."))
    hint = f"of the newest {number(len(seen.times))} completed"
    return panel("Times", grid(["Time", "half", "95 %", "99 %"], rows, "Claim latency and run time"), hint=hint)


def _queues(seen: Overview) -> Html:
    breakers = breakers_of(seen.alive)
    waiting: dict[str, list[Backlog]] = {}
    for backlog in seen.backlog:
        waiting.setdefault(backlog.queue, []).append(backlog)
    running = Counter(job.queue for job in seen.running)
    paused = {name for kind, name in seen.paused if kind == "queue"}
    names = sorted({*waiting, *running, *paused, *breakers})
    if not names:
        return panel("Queues", empty("Nothing waits and nothing runs: every queue is empty."))
    rows = [
        h.tr(
            h.th(h.a(name, href=search_link(Search(queue=name))), scope="row"),
            h.td(depth_of(waiting.get(name, [])), class_="num"),
            h.td(_by_priority(waiting.get(name, []))),
            h.td(oldest_of(waiting.get(name, []), seen.now), class_="num"),
            h.td(number(running[name]), class_="num"),
            h.td(queue_condition(name in paused, breakers.get(name))),
        )
        for name in names
    ]
    columns: list[Child] = ["Queue", "Waiting", "By priority", "Oldest", "Running", "Condition"]
    return panel("Queues", grid(columns, rows, "Queues", "no-3"))


def _failing(found: FailureGroups, seen: Overview) -> Html:
    if not found.groups:
        failed = any(seen.states[state].number for state in (State.FAILED, State.DEAD_LETTER))
        told = (
            "Nothing that needs you: whatever failed runs again as a new job." if failed else "Nothing: no job failed."
        )
        return panel("What fails", empty(told))
    rows = [
        h.tr(
            h.td(h.strong(counted(Count(group.count, not group.exact))), class_="num"),
            h.td(h.a(group.type, href=search_link(Search(fingerprint=group.fingerprint))), class_="name"),
            h.td(h.span(h.strong(group.code), f": {group.message[:120]}", class_="error"), class_="name"),
            h.td(moment(group.last_at, seen.now), class_="num"),
        )
        for group in found.groups
    ]
    more = h.a("All failures by cause", href=FAILURES)
    return panel("What fails", grid(["Jobs", "Type", "Cause", "Last"], rows, "What fails, by cause"), hint=more)


def depth_of(backlogs: list[Backlog]) -> str:
    number_ = sum(backlog.waiting.number for backlog in backlogs)
    return counted(Count(number_, any(backlog.waiting.or_more for backlog in backlogs)))


def _by_priority(backlogs: list[Backlog]) -> Child:
    if len(backlogs) == 1:
        return h.span(PRIORITY_NAMES[backlogs[0].priority], class_="soft")
    return h.span(", ".join(f"{PRIORITY_NAMES[b.priority]} {counted(b.waiting)}" for b in backlogs), class_="soft")


def oldest_of(backlogs: list[Backlog], now: int) -> Child:
    since = [backlog.oldest_at for backlog in backlogs if backlog.oldest_at is not None]
    return moment(min(since), now) if since else "–"


def queue_condition(paused: bool, breaker: str | None) -> Html:
    if paused:
        return h.span("‖ paused", class_="flag warn")
    if breaker:
        return h.span(f"⚠ breaker {breaker}", class_="flag warn")
    return h.span("✓ open", class_="flag fine")


def _workers(seen: Overview, visitor: Visitor) -> Html:
    lines = worker_lines(seen.alive, seen.running, seen.now)
    if not lines:
        return panel("Workers", no_worker(visitor.is_admin))
    busiest = sorted(lines, key=lambda line: -len(line.held))[:WORKERS_SHOWN]
    rows = [
        h.tr(
            h.th(h.code(line.name), scope="row"),
            h.td(slots(line), class_="num"),
            h.td(condition(line, seen.now)),
            h.td(moment(line.seen_at, seen.now), class_="num"),
        )
        for line in busiest
    ]
    hint = h.a(how_many(lines, visitor.is_admin), href="/dashboard/queues")
    return panel("Workers", grid(["Worker", "Busy", "Condition", "Seen"], rows, "Workers", "no-4"), hint=hint)


def _outbox(seen: Overview) -> Html:
    waiting = [seen.outbox[state] for state in ("scheduled", "running", "retrying")]
    dead = seen.outbox["dead_letter"]
    if not any(depth.count.number for depth in (*waiting, dead)):
        return panel("Webhooks", empty("Every webhook event has been delivered, or none was asked for."))
    oldest = [depth.oldest_at for depth in waiting if depth.oldest_at is not None]
    figures = h.dl(
        _figure("waiting", counted(seen.outbox["scheduled"].count)),
        _figure(
            "retrying", counted(seen.outbox["retrying"].count), "warn" if seen.outbox["retrying"].count.number else ""
        ),
        _figure("dead letter", counted(dead.count), "bad" if dead.count.number else ""),
        _figure("oldest waits since", moment(min(oldest), seen.now) if oldest else "–"),
        class_="figures",
    )
    return panel("Webhooks", figures, h.p(h.a("To the webhooks", href="/dashboard/webhooks")))


def _housekeeping(overdue_us: int) -> Html:
    """One line: whether ended jobs are removed in time."""
    if not overdue_us:
        return panel("Housekeeping", empty("Ended jobs are removed when their retention is over. None is overdue."))
    return panel(
        "Housekeeping",
        h.p(
            f"Ended jobs are being removed. The oldest is overdue by {duration(overdue_us)}. To remove them now: ",
            h.code("euterpe prune"),
        ),
    )
