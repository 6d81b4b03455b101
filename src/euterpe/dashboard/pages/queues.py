"""Queues and workers: what waits where, who is at work, what is paused, and which crons submit what."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from euterpe.dashboard.layout import JOBS, PageFrame, act, csrf, empty, grid, heading, notice, panel
from euterpe.dashboard.page_server import Form, PageServer
from euterpe.dashboard.pages.overview import depth_of, oldest_of, queue_condition, search_link
from euterpe.dashboard.parts import html as h
from euterpe.dashboard.parts.formatting import duration, moment, number, short_id
from euterpe.dashboard.parts.html import Child, Html, joined
from euterpe.dashboard.parts.workers import WorkerLine, about, breakers_of, condition, how_many, no_worker, worker_lines
from euterpe.dashboard.sign_in import Visitor
from euterpe.model.errors import InvalidInput
from euterpe.model.reading.overview import Backlog, Workers
from euterpe.model.reading.views import Search
from euterpe.ports import DashboardReads, Store, Wakeups
from euterpe.server.http.asgi import Answer, Request

QUEUES: Final = "/dashboard/queues"
SAID: Final = {
    "paused": "It is paused: no worker claims from it until it is resumed. What runs goes on.",
    "resumed": "It is resumed.",
}
HELD_SHOWN: Final = 20
WORKERS_SHOWN: Final = 100


class CronEntry(NamedTuple):
    """A periodic job as the page tells it."""

    job_type: str
    expression: str
    in_words: str
    zone: str
    next_at: int


Crons = Callable[[], Sequence[CronEntry]]


class QueuesQuery(msgspec.Struct, frozen=True):
    """`said` names what has just been done."""

    said: str | None = None


class PauseForm(Form, frozen=True):
    """What to pause or resume: a `queue` or a `type`, by name."""

    kind: str | None = None
    name: str | None = None
    do: str | None = None


class QueuesPage:
    """Made of two looks, and the crons of the application in this process."""

    def __init__(
        self,
        server: PageServer,
        store: Store,
        reads: DashboardReads,
        wakeups: Wakeups,
        crons: Crons,
    ) -> None:
        self._server = server
        self._store = store
        self._reads = reads
        self._wakeups = wakeups
        self._crons = crons

    async def make(self, visitor: Visitor, said: QueuesQuery, _: Request) -> PageFrame:
        seen = await self._reads.workers(visitor.sees)
        body = joined(
            heading("Queues and workers"),
            notice(said.said, SAID),
            h.div(
                h.div(
                    _queues(visitor, seen),
                    _workers(visitor, seen),
                    await self._cron_panel(seen.now),
                ),
                h.div(_paused(visitor, seen.paused), _lately(seen)),
                class_="columns",
            ),
        )
        return PageFrame("Queues and workers", body, QUEUES)

    async def pause(self, request: Request, said: PauseForm) -> Answer:
        async def do(_: Visitor) -> str:
            kind, name = said.kind or "", (said.name or "").strip()
            if not name:
                raise InvalidInput("name", "say which queue or type")
            if said.do == "resume":
                await self._store.resume(kind, name)
                # Of a type nobody knows the queues; workers find its jobs at their next poll.
                self._wakeups.announce([name] if kind == "queue" else [])
                return f"{QUEUES}?said=resumed"
            await self._store.pause(kind, name)
            return f"{QUEUES}?said=paused"

        return await self._server.act(request, said.csrf, do)

    async def _cron_panel(self, now: int) -> Html:
        entries = self._crons()
        if not entries:
            return panel("Crons", empty("No cron is declared in the application of this process."))
        last = await asyncio.gather(*(self._last_run(entry) for entry in entries))
        rows = [
            h.tr(
                h.th(h.a(entry.job_type, href=search_link(Search(type=entry.job_type))), scope="row"),
                h.td(entry.in_words, h.span(f" ({entry.expression}, {entry.zone})", class_="soft")),
                h.td("–" if at is None else moment(at, now), class_="num"),
                h.td(moment(entry.next_at, now), class_="num"),
            )
            for entry, at in zip(entries, last, strict=True)
        ]
        return panel("Crons", grid(["Job", "When", "Last", "Next"], rows, "Crons"))

    async def _last_run(self, entry: CronEntry) -> int | None:
        found = await self._store.search(
            Search(type=entry.job_type, tag=("cron", entry.expression), limit=1, scan_limit=1_000)
        )
        return found.jobs[0].created_at if found.jobs else None


def _pause_button(visitor: Visitor, kind: str, name: str, *, paused: bool) -> Html | None:
    do, label = ("resume", "Resume") if paused else ("pause", "Pause")
    fields = [h.input_(type="hidden", name=n, value=v) for n, v in (("kind", kind), ("name", name), ("do", do))]
    return act(visitor, f"{QUEUES}/pause", label, fields, about=name)


def _queues(visitor: Visitor, seen: Workers) -> Html:
    breakers = breakers_of(seen.alive)
    waiting: dict[str, list[Backlog]] = {}
    for backlog in seen.backlog:
        waiting.setdefault(backlog.queue, []).append(backlog)
    running = Counter(job.queue for job in seen.running)
    paused = {name for kind, name in seen.paused if kind == "queue"}
    listened = {queue for worker in seen.alive for queue in worker.facts.queues}
    names = sorted({"default", *waiting, *running, *paused, *listened})
    rows = [
        h.tr(
            h.th(h.a(name, href=search_link(Search(queue=name))), scope="row"),
            h.td(depth_of(waiting.get(name, [])), class_="num"),
            h.td(oldest_of(waiting.get(name, []), seen.now), class_="num"),
            h.td(number(running[name]), class_="num"),
            h.td(queue_condition(name in paused, breakers.get(name))),
            h.td(_pause_button(visitor, "queue", name, paused=name in paused)) if visitor.is_admin else None,
        )
        for name in names
    ]
    columns: list[Child] = ["Queue", "Waiting", "Oldest", "Running", "Condition"]
    if visitor.is_admin:
        columns.append("Act")
    return panel("Queues", grid(columns, rows, "Queues", "no-3"))


def _paused(visitor: Visitor, paused: list[tuple[str, str]]) -> Html:
    types = sorted(name for kind, name in paused if kind == "type")
    rows = [h.tr(h.th(name, scope="row"), h.td(_pause_button(visitor, "type", name, paused=True))) for name in types]
    form = h.form(
        csrf(visitor),
        h.input_(type="hidden", name="kind", value="type"),
        h.label("Pause a job type", for_="pause-type"),
        h.input_(id="pause-type", name="name", type="text", required=True),
        h.button("Pause", type="submit"),
        method="post",
        action=f"{QUEUES}/pause",
        class_="inline",
    )
    return panel(
        "Paused job types",
        grid(["Type", "Act"], rows, "Paused job types") if rows else empty("No job type is paused."),
        form if visitor.is_admin else None,
    )


def _workers(visitor: Visitor, workers: Workers) -> Html:
    lines = worker_lines(workers.alive, workers.running, workers.now)
    if not lines:
        return panel("Workers", no_worker(visitor.is_admin))
    return panel(
        "Workers",
        [_worker(line, workers.now) for line in lines[:WORKERS_SHOWN]],
        empty(f"and {number(len(lines) - WORKERS_SHOWN)} more") if len(lines) > WORKERS_SHOWN else None,
        hint=how_many(lines, visitor.is_admin),
    )


def _worker(line: WorkerLine, now: int) -> Html:
    rows = [
        h.tr(
            h.td(h.a(job.type, href=f"{JOBS}/{job.job_id}", class_="row-link"), " ", h.code(short_id(job.job_id))),
            h.td(job.queue, class_="name"),
            h.td(duration(max(0, now - (job.started_at or now))), class_="num ran"),
            h.td("" if job.progress is None else f"{job.progress:.0f} %", class_="num"),
        )
        for job in line.held[:HELD_SHOWN]
    ]
    total = None if line.facts is None else line.facts.slots
    free = "" if total is None else f" of {number(total)} slots"
    told = h.summary(
        h.code(line.name),
        " ",
        condition(line, now),
        f" holds {number(len(line.held))}{free}, last seen ",
        moment(line.seen_at, now),
    )
    jobs = grid(["Job", "Queue", "Runs for", "Progress"], rows, f"Jobs of {line.name}") if rows else None
    more = empty(f"and {number(len(line.held) - HELD_SHOWN)} more") if len(line.held) > HELD_SHOWN else None
    return h.details(told, about(line), jobs, more, open_=True)


def _lately(workers: Workers) -> Html:
    if not workers.seen:
        return panel("Seen lately", empty("No worker has completed a job lately."))
    rows = [
        h.tr(
            h.th(h.code(one.worker_id), scope="row"),
            h.td(number(one.completed), class_="num"),
            h.td(moment(one.last_at, workers.now), class_="num"),
        )
        for one in workers.seen[:HELD_SHOWN]
    ]
    return panel(
        "Seen lately", grid(["Worker", "Completed", "Last"], rows, "Workers seen lately"), hint="newest 5,000 ends"
    )
