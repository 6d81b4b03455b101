"""Random histories of lots by two stores: what is ready is in a line, lists tell what is true, and all ends.

`EUTERPE_TEST_HISTORIES=70` plays so many.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from euterpe.model.bulk import Action, BulkOrder
from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Outcome, Released, Success
from euterpe.model.dependency import Dependency
from euterpe.model.errors import EuterpeError, IllegalTransition, JobNotFound, UnknownDependency
from euterpe.model.job import Claim
from euterpe.model.reading.job_query import parse_query
from euterpe.model.reading.views import Search
from euterpe.model.retention import Retention
from euterpe.model.state import TERMINAL, State
from euterpe.model.submitting.changes import Changes
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import CALLBACK, DAY, MINUTE, failure, job, shown, told
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import PostgresTables

STEPS = 60
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"priority": 0},
    {"priority": 4, "max_attempts": 2},
    {"callback_url": CALLBACK, "callback_events": "terminal"},
    {"callback_url": CALLBACK, "callback_events": "all"},
    {"concurrency_key": "k", "concurrency_limit": 3},
    {"lifetime_us": 2 * MINUTE},
    {"visibility_us": 5_000_000},
    {"type": "other", "tags": {"a": "b"}},
)
SAID = b"o" * 32
"""The hash of what is reported over HTTP."""
UNLISTED = {"scheduled", "running", "completed"}
GONE = (IllegalTransition, JobNotFound, UnknownDependency)


class History:
    def __init__(self, stores: list[SqlStore], tables: PostgresTables, clock: FrozenClock, rng: Random) -> None:
        self.stores, self.tables, self.clock, self.rng = stores, tables, clock, rng
        self.ids: list[str] = []
        self.held: list[Claim] = []
        self.handed_out: set[str] = set()

    @property
    def store(self) -> SqlStore:
        return self.rng.choice(self.stores)

    def some(self) -> str:
        return self.rng.choice(self.ids)

    async def lot(self) -> None:
        said = [job(**self.rng.choice(KINDS))] * self.rng.choice((1, 5, 16, 40, 300))
        self.ids += [submitted.job_id for submitted in await self.store.submit_many(said)]

    async def turn(self) -> None:
        self.rng.shuffle(self.held)
        count = self.rng.randrange(len(self.held) + 1)
        mine, self.held = self.held[:count], self.held[count:]
        plain = self.rng.random() < 0.6
        outcomes: list[Outcome] = [Success(b"1")] if plain else [Success(b"1"), failure(), Released()]
        reports = [Report(claim, self.rng.choice(outcomes)) for claim in mine]
        queues = self.rng.choice((("default",), ("default",), ("first", "default")))
        request = ClaimRequest(worker_id="w", limit=self.rng.choice((1, 7, 30)), queues=queues)
        _, claims = await self.store.exchange(reports, self.rng.choice((request, request, None)))
        self.got(claims)

    def got(self, claims: list[Claim]) -> None:
        attempts = {claim.lease.attempt_id for claim in claims}
        assert attempts.isdisjoint(self.handed_out), "no claim is handed out twice"
        self.handed_out |= attempts
        self.held += claims

    async def over_http(self) -> None:
        limit = self.rng.choice((5, 20))
        request = ClaimRequest(worker_id="h", limit=limit, prefetch=5, prefetch_types=("work",))
        self.got(await self.store.control_plane.claim_for(request, ["h"] * (limit + 5)))

    async def told_over_http(self) -> None:
        """By any control plane, whoever claimed."""
        plane = self.store.control_plane
        mine = [claim for claim in self.held if claim.lease.token is not None][: self.rng.randrange(30)]
        self.held = [claim for claim in self.held if claim not in mine]
        if self.rng.random() < 0.3:
            await plane.renew_leases([shown(claim) for claim in mine], MINUTE)
        replies = await plane.finish([told(claim, Success(b"1"), SAID) for claim in mine])
        ended = [claim.job.id for claim, reply in zip(mine, replies, strict=True) if reply.state is not None]
        rows = [await self.store.get(job_id) for job_id in ended]
        assert {row.state for row in rows} <= {State.COMPLETED}, "what was answered is true"

    async def heartbeat(self) -> None:
        await self.store.heartbeat([claim.lease for claim in self.held])

    async def one_job(self) -> None:
        store, job_id = self.store, self.some()
        acts: list[Callable[[], Awaitable[object]]] = [
            lambda: store.cancel(job_id),
            lambda: store.cancel(job_id, force=True),
            lambda: store.update(job_id, Changes(priority=self.rng.randrange(5))),
            lambda: store.retry(job_id),
            lambda: store.dead_letter(job_id),
            lambda: self._dependent(store, job_id),
            lambda: store.why(job_id),
        ]
        with suppress(*GONE):
            await self.rng.choice(acts)()

    async def _dependent(self, store: SqlStore, job_id: str) -> None:
        submitted = await store.submit(job(depends_on=(job_id,), dependency=Dependency.AFTER_ANY))
        self.ids.append(submitted.job_id)

    async def many_jobs(self) -> None:
        store = self.store
        query = self.rng.choice(
            ("state:scheduled type:other", "state:running", "state:completed type:other", "state:dead_letter")
        )
        action = self.rng.choice((Action.CANCEL, Action.REPLAY, Action.RETRY))
        search = parse_query(query, await store.now_us())
        with suppress(EuterpeError):  # not every act is for every state
            await store.operations.order(BulkOrder(action=action, query=query, search=search, ordered_by="local"))
        while (await store.sweeps.work_operations()).more:
            pass

    async def sweep(self) -> None:
        store = self.store
        self.clock.advance(seconds=self.rng.choice((1, 7, 61, 121)))
        for act in (store.sweeps.promote, store.sweeps.reclaim, store.sweeps.end_lifetimes, store.sweeps.unpark_idle):
            await act()

    async def prune(self) -> None:
        self.clock.advance(days=2)
        await self.store.sweeps.prune(Retention(completed_us=DAY, cancelled_us=DAY, failed_us=DAY, dead_letter_us=DAY))

    async def pause(self) -> None:
        kind, name = self.rng.choice((("queue", "default"), ("type", "work"), ("type", "other")))
        await self.store.pause(kind, name)
        request = ClaimRequest(worker_id="w", limit=50, queues=self.rng.choice((("default",), ("x", "default"))))
        claims = await self.store.claim(request)
        assert not [c for c in claims if kind == "queue" or c.job.type == name]
        self.got(claims)
        await self.store.resume(kind, name)

    async def check(self) -> None:
        run = self.tables.run
        placed = (
            "SELECT j.seq, (SELECT COUNT(*) FROM euterpe_line r WHERE r.queue = j.queue AND r.type = j.type"
            " AND r.priority = j.priority AND j.seq BETWEEN r.seq AND r.seq + r.jobs - 1)"
            " + (SELECT COUNT(*) FROM euterpe_key_line l WHERE l.seq = j.seq) FROM inbox_jobs j"
            " WHERE j.state = 'scheduled'"
        )
        assert [row for row in await run(placed) if row[1] < 1] == [], "what is ready is in a line"
        filed = "SELECT state, listed FROM inbox_jobs GROUP BY state, listed"
        assert [row for row in await run(filed) if row[1] != (None if row[0] in UNLISTED else row[0])] == []
        counted = (
            "SELECT k.name, k.running, k.in_line, (SELECT COUNT(*) FROM inbox_jobs j WHERE j.state = 'running'"
            " AND j.requester_id || chr(31) || j.concurrency_key = k.name),"
            " (SELECT COUNT(*) FROM euterpe_line r WHERE r.key = k.name) FROM euterpe_keys k"
        )
        assert [row for row in await run(counted) if row[1:3] != row[3:5]] == [], "keys are counted right"
        indexed = (
            "SELECT 1 FROM inbox_jobs j WHERE j.state = 'running'"
            " AND NOT EXISTS (SELECT 1 FROM euterpe_running r WHERE j.seq = ANY (r.seqs))"
        )
        assert await run(indexed) == [], "what runs is found by its claim"
        truth = await run("SELECT state, CAST(id AS text) FROM inbox_jobs ORDER BY seq DESC")
        store = self.store
        stats = await store.stats()
        by_state = {State(state): n for state, n in Counter(state for state, _ in truth).items()}
        assert stats.by_state == by_state
        for state in State:
            limit = self.rng.choice((3, 50, 1000))
            page = await store.search(Search(state=state, limit=limit))
            assert [found.id for found in page.jobs] == [job_id for s, job_id in truth if s == state][:limit]

    async def drain(self) -> None:
        for _ in range(400):
            reports = [Report(claim, Success(b"1")) for claim in self.held]
            _, self.held = await self.stores[0].exchange(reports, ClaimRequest(worker_id="w", limit=200))
            if not self.held:
                self.clock.advance(seconds=301)
                for store in self.stores:
                    await store.sweeps.promote()
                    await store.sweeps.reclaim()
                    await store.sweeps.unpark_idle()
                    await store.sweeps.watch_dependencies()
                    await store.sweeps.end_lifetimes()
                live = await self.tables.run(
                    f"SELECT 1 FROM inbox_jobs WHERE state NOT IN ({', '.join(repr(str(s)) for s in TERMINAL)})"
                )
                if not live:
                    break
        assert not live, "something waits for ever"
        assert await self.tables.run("SELECT * FROM euterpe_line") == []
        self.clock.advance(minutes=2)
        await self.store.sweeps.reclaim()
        assert await self.tables.run("SELECT * FROM euterpe_running") == []


@pytest.mark.parametrize("seed", range(int(os.environ.get("EUTERPE_TEST_HISTORIES", "3"))))
async def test_a_random_history(
    store: SqlStore,
    another: SqlStore,
    tables: PostgresTables,
    clock: FrozenClock,
    seed: int,
) -> None:
    rng = Random(seed)
    history = History([store, another], tables, clock, rng)
    steps = [history.lot] * 4 + [history.turn] * 9 + [history.one_job] * 6
    steps += [history.over_http] * 3 + [history.told_over_http] * 3
    steps += [history.heartbeat, history.many_jobs, history.sweep, history.sweep, history.prune, history.pause]
    await history.lot()
    for _ in range(STEPS):
        await asyncio.gather(*(rng.choice(steps)() for _ in range(rng.choice((1, 1, 3)))))
        if rng.random() < 0.5:
            await history.check()
    await history.drain()
    await history.check()
