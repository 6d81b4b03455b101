"""Starts the fleet, breaks it by plan, lets it drain, and judges."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import psycopg

from tests.campaign import parts
from tests.campaign.damage import Damage
from tests.campaign.full_disk import no_file_grows, statements_refused
from tests.campaign.operator import operator
from tests.campaign.place import Place
from tests.campaign.plan import OFFSETS_S, Fault, faults
from tests.campaign.processes import LEASE_S, ROOT, SETTINGS, SWEEP_S, Role
from tests.campaign.redis_damage import RedisDamage, unread
from tests.campaign.verdicts import Verdict, limits_in, verdicts
from tests.faults.crew import Actor, Crew, until
from tests.faults.recorder import rows, run
from tests.outbox.receiver import Receiver

RECOVERY_S = LEASE_S + 3 * SWEEP_S + 1.0
"""Lost jobs are looked for at every third sweep."""
DRAIN_S = 30.0
"""Without any job that ends or event that is delivered."""
FREEZES = 20
LOOK_S = 0.05
WATCH_S = 0.4
"""Between two looks at the database. Each is a new connection, which on Postgres costs more than its question."""
WORKS_WITHIN_S = 10.0
LASTS_US = 400_000
RUNNING = "SELECT CAST(id AS text), claim_version FROM inbox_jobs WHERE state = 'running'"


@dataclass
class Settings:
    seed: int
    jobs: int
    seconds: float
    workers: int = 3
    streams: bool = True
    """Whether Redis Streams carry the wake-ups; else NOTIFY, or the WAL."""
    only: tuple[str, ...] = ()
    """The kinds of faults, each of which comes at least once; empty for all."""


@dataclass
class Campaign:
    settings: Settings
    place: Place
    receiver: Receiver
    crew: Crew
    folder: Path
    done: Counter[str] = field(default_factory=Counter)
    recoveries: list[tuple[float, float]] = field(default_factory=list)
    over_limit: list[str] = field(default_factory=list)
    snapshots: int = 0
    earlier: dict[int, list[Actor]] = field(default_factory=dict)
    """The submitters that were killed, by their place."""

    async def run(self) -> list[Verdict]:
        self._make_fleet()
        for role in self.roles:
            role.start()
        await until(self._api_answers, 60)
        submitters = [self._submitter(i) for i in range(self.submitters)]
        self.operator = self.crew.start(operator, self.place.url, self._transport, self.settings.seed)
        watching = asyncio.create_task(self._watch_limits())
        await self._break(submitters)
        await self._all_submitted(submitters)
        self.operator.order("stop")
        assert await self.operator.report(DRAIN_S) == "done"
        drained = await self._drained()
        if self.place.redis is not None:
            drained += await asyncio.to_thread(unread, self.place.redis)
        watching.cancel()
        broken = [*drained, *self.place.left_in_a_transaction()]
        for role in self.roles:
            await asyncio.to_thread(role.stop)
        deaths = [death for role in self.roles for death in role.deaths]
        return [
            *verdicts(self.place.url, self.crew, self.receiver.got, self.recoveries, self.snapshots, self.over_limit),
            Verdict("no connection is left in a transaction, and all drains", 1, broken),
            Verdict("no process ends by itself, and each obeys SIGTERM", len(self.roles), deaths),
        ]

    def _make_fleet(self) -> None:
        url, through = self.place.url, self.place.proxied_url
        self.place.environ["EGRESS_ALLOW_HOSTS"] = f"127.0.0.1:{self.receiver.port}"
        keys = [sys.executable, "-m", "euterpe.cli", "--engine", url, "keys", "create"]
        made = subprocess.run(
            [*keys, "--requester", "local", "--scope", "submit,read,admin", "--json"],
            cwd=ROOT, env={**self.place.environ, **SETTINGS}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        self.token: str = json.loads(made.stdout)["key"]
        worker = ["worker", "tests.campaign.app:queue", "--concurrency", "8", "--metrics-port", "0"]
        self.workers = [
            Role(f"worker{i}", worker, {**self.place.environ, "CAMPAIGN_URL": through if i == 0 else url}, self.folder)
            for i in range(self.settings.workers)
        ]
        self.dispatcher = Role("dispatcher", ["--role=outbox", "--engine", url], self.place.environ, self.folder)
        api = {**self.place.environ, "API_PORT": str(self.place.api_port)}
        self.api = Role("api", ["--role=api", "--engine", url], api, self.folder)
        self.roles = [*self.workers, self.dispatcher, self.api]
        self.submitters = 2

    async def _api_answers(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.place.api_port)
        except OSError:
            return False
        writer.close()
        return True

    def _submitter(self, index: int, done: list[str] | None = None) -> Actor:
        """The first one goes by the API, the other by the database."""
        url, token = (f"http://127.0.0.1:{self.place.api_port}", self.token) if index == 0 else (self.place.url, None)
        numbers = list(range(index, self.settings.jobs, self.submitters))
        pause_s = 0.7 * self.settings.seconds / max(1, len(numbers))
        seed = self.settings.seed
        transport = self._transport if token is None else None
        return self.crew.start(
            parts.submitter, url, token, transport, seed, numbers, self.receiver.url, pause_s, list(done or [])
        )

    @property
    def _transport(self) -> str | None:
        return None if self.place.redis is None else self.place.redis.url

    # --- faults -----------------------------------------------------------------------------------

    async def _break(self, submitters: list[Actor]) -> None:
        ends_at = time.monotonic() + self.settings.seconds
        damage = Damage(self.place, self.receiver)
        settings = self.settings
        for fault in faults(settings.seed, self.place.engine, streams=settings.streams, only=settings.only):
            if time.monotonic() + fault.pause_s > ends_at and self.done.keys() >= set(settings.only):
                return
            await asyncio.sleep(fault.pause_s)
            self._note(f"{fault.kind} begins, {fault.lasts_s:.1f} s, choice {fault.choice:.2f}")
            await self._inject(fault, damage, submitters)
            self._note(f"{fault.kind} is over")
            self.done[fault.kind] += 1
            for role in self.roles:
                role.look()

    def _note(self, words: str) -> None:
        """Beside the logs, so that they can be read together."""
        with (self.folder / "faults.log").open("a") as log:
            log.write(f"{datetime.now(UTC).isoformat(timespec='milliseconds')} {words}\n")

    async def _inject(self, fault: Fault, damage: Damage, submitters: list[Actor]) -> None:
        worker = self.workers[int(fault.choice * len(self.workers))]
        match fault.kind:
            case "kill_worker":
                await self._kill_and_time(worker)
            case "freeze_worker":
                await self._freeze_and_thaw(worker, whole=int(fault.choice * 10) % 2 == 1)
            case "skew_clock":
                worker.clock_offset_s = OFFSETS_S[int(fault.choice * 100) % len(OFFSETS_S)]
                await self._kill_and_time(worker)
                worker.clock_offset_s = 0.0  # its next life is right again
            case "disk_full":
                await self._fill_disk(fault.lasts_s)
            case "kill_redis" | "flush_redis" | "forge_messages":
                assert self.place.redis is not None
                await RedisDamage(self.place.redis, self.place.url).do(fault)
            case "kill_dispatcher" | "kill_api":
                role = self.dispatcher if fault.kind == "kill_dispatcher" else self.api
                role.kill()
                await asyncio.sleep(fault.lasts_s / 4)
                role.start()
            case "kill_submitter":
                index = int(fault.choice * len(submitters))
                submitters[index].kill()
                said = [note.said["job_id"] for actor in self._lives(index, submitters) for note in actor.notes()]
                submitters[index] = self._submitter(index, said)
            case _:
                await damage.do(fault)

    async def _freeze_and_thaw(self, worker: Role, *, whole: bool) -> None:
        """It wakes up at the worst moment: when another runs one of its jobs, which it has still to write. On SQLite
        nobody could take them over while it holds the file's only lock."""
        held = await self._until_it_works(worker)
        worker.freeze(whole=whole)
        for _ in range(FREEZES):
            if not await asyncio.to_thread(self.place.is_locked):
                break
            await asyncio.to_thread(worker.thaw)
            await asyncio.sleep(0.05)
            worker.freeze(whole=whole)

        async def runs_elsewhere() -> bool:
            now = await self._look(RUNNING)
            return not held or any(job_id in held and version > held[job_id] for job_id, version in now)

        self._note(f"{worker.worker_name} is frozen with {len(held)} jobs")
        with suppress(TimeoutError):
            await until(runs_elsewhere, 2 * RECOVERY_S)
        await asyncio.to_thread(worker.thaw)

    async def _fill_disk(self, lasts_s: float) -> None:
        pids = [role.process.pid for role in self.roles if role.process is not None]
        on_sqlite = self.place.engine == "sqlite"
        with no_file_grows(pids) if on_sqlite else statements_refused(self.place.url):
            await asyncio.sleep(lasts_s)

    def _lives(self, index: int, submitters: list[Actor]) -> list[Actor]:
        self.earlier.setdefault(index, []).append(submitters[index])
        return self.earlier[index]

    def _held_by(self, worker: Role) -> list[tuple[Any, ...]]:
        return rows(
            self.place.url,
            f"{RUNNING} AND worker_id LIKE '{worker.worker_name}:%'",
        )

    async def _look(self, query: str) -> list[tuple[Any, ...]]:
        await asyncio.sleep(LOOK_S)
        return await asyncio.to_thread(rows, self.place.url, query)

    async def _lasting(self, worker: Role) -> dict[str, int]:
        """The claims of this worker that have run for a while."""
        since_us = time.time_ns() // 1000 - LASTS_US
        named = f"worker_id LIKE '{worker.worker_name}:%'"
        return dict(await self._look(f"{RUNNING} AND {named} AND started_at < {since_us}"))

    async def _until_it_works(self, worker: Role) -> dict[str, int]:
        """A worker without a job that lasts is a poor victim."""
        found: dict[str, int] = {}

        async def works() -> bool:
            nonlocal found
            found = await self._lasting(worker)
            return bool(found)

        with suppress(TimeoutError):
            await until(works, WORKS_WITHIN_S)
        return found

    async def _kill_and_time(self, worker: Role) -> None:
        await self._until_it_works(worker)
        worker.kill()
        killed_at = time.monotonic()
        held = self._held_by(worker)
        worker.start()

        async def given_back() -> bool:
            return not set(held) & set(await self._look(RUNNING))

        if held:
            try:
                await until(given_back, 4 * RECOVERY_S)
            finally:
                self.recoveries.append((time.monotonic() - killed_at, RECOVERY_S))

    # --- the end ----------------------------------------------------------------------------------

    async def _watch_limits(self) -> None:
        while True:
            with suppress(psycopg.Error, apsw.Error):  # it is away, by plan
                self.over_limit += await asyncio.to_thread(limits_in, self.place.url)
                self.snapshots += 1
            await asyncio.sleep(WATCH_S)

    async def _all_submitted(self, submitters: list[Actor]) -> None:
        for submitter in submitters:
            assert await submitter.report(2 * (DRAIN_S + self.settings.seconds)) == "done"
            submitter.order("stop")

    async def _drained(self) -> list[str]:
        """Jobs end and events are delivered by the fleet itself; only waits between deliveries are cut short. However
        many are left, limits make them wait for each other; but something must move all the time."""
        moved_at, before = time.monotonic(), ""
        while time.monotonic() - moved_at < DRAIN_S:
            for role in self.roles:
                role.look()
            run(self.place.url, "UPDATE job_outbox_events SET run_at = 0 WHERE state = 'retrying'")
            await asyncio.sleep(0.2)
            ends = "('completed', 'failed', 'dead_letter', 'cancelled')"
            ((jobs,),) = rows(self.place.url, f"SELECT count(*) FROM inbox_jobs WHERE state NOT IN {ends}")
            ((events,),) = rows(self.place.url, "SELECT count(*) FROM job_outbox_events WHERE state <> 'completed'")
            if not jobs and not events:
                return []
            if before != (before := f"{jobs} jobs and {events} events"):
                moved_at = time.monotonic()
        states = rows(self.place.url, "SELECT state, count(*) FROM inbox_jobs GROUP BY state")
        told = rows(self.place.url, "SELECT state, count(*), max(error) FROM job_outbox_events GROUP BY state")
        return [f"nothing moved for {DRAIN_S:.0f} s with {before} left: jobs {states}, events {told}"]
