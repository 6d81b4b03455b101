"""Starts the fleet, breaks it by plan, lets it drain, and judges."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw
import psycopg

from tests.campaign import parts
from tests.campaign.bursts import STOP, Ends, burst_until, burster, charged_in, unbegun
from tests.campaign.damage import Damage
from tests.campaign.dead_store import ALLOWED_S, DeadStore, kept_waiting
from tests.campaign.full_disk import no_file_grows, statements_refused
from tests.campaign.hostile_jobs import ENDS_WORKERS, HostileJobs
from tests.campaign.long_faults import LongFaults
from tests.campaign.operator import operator
from tests.campaign.place import Place
from tests.campaign.plan import OFFSETS_S, Fault, faults
from tests.campaign.processes import LEASE_S, ROOT, SETTINGS, SWEEP_S, Role
from tests.campaign.redis_damage import RedisDamage, unread
from tests.campaign.verdicts import Verdict, limits_in, verdicts
from tests.campaign.waits import Waits, waiting
from tests.faults.crew import Actor, Crew, until
from tests.faults.recorder import rows, run
from tests.outbox.receiver import Receiver

GOES_ON_S = 3 * SWEEP_S + 1.0
"""Lost jobs are looked for at every third sweep."""
RECOVERY_S = 1.5 * LEASE_S + GOES_ON_S
"""After another fault a recovery waits for half of a lease until living workers have renewed theirs."""
SLOTS = 8
"""Of each worker."""
START_S = 60.0
DRAIN_S = 30.0
"""Without any job that ends or event that is delivered."""
FREEZES = 20
LOOK_S = 0.05
WATCH_S = 0.4
"""Between two looks at the database. Each is a new connection, which on Postgres costs more than its question."""
WORKS_WITHIN_S = 10.0
LASTS_US = 400_000
_RUNNING = "SELECT CAST(id AS text), claim_version FROM inbox_jobs WHERE state = 'running'"
"""The claims that hold jobs now; a condition may follow."""


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
    slack_s: float = 0.0
    """How much later than promised a recovery may be: this machine may have other work."""


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
    cut_off: set[str] = field(default_factory=set)
    """Workers over HTTP whose control plane was away for so long that leases ran out, as those of a frozen one do: of
    what they had claimed ahead, or were about to be told of."""

    drained_s: float = 0.0
    """How long the last jobs took to end after the last fault. Limits make them wait for each other."""

    async def run(self) -> list[Verdict]:
        self.waits = Waits(GOES_ON_S + self.settings.slack_s)
        self.long_faults = LongFaults(self.place, self.settings.slack_s)
        self._make_fleet()
        self.hostile = HostileJobs(self.place.url)
        self.dead_store = DeadStore(self.place.url, self._transport, self.folder / "dead_store")
        for role in self.roles:
            role.start()
        await until(self._api_answers, START_S)
        submitters = [self._submitter(i) for i in range(self.submitters)]
        self.operator = self.crew.start(operator, self.place.url, self._transport, self.settings.seed)
        self.burster = self.crew.start(burster, self.place.url, self._transport)
        watching = asyncio.create_task(self._watch_limits())
        await self._break(submitters)
        faults_over_at = time.monotonic()
        await self._all_submitted(submitters)
        for actor in (self.operator, self.burster):
            actor.order(STOP)
            assert await actor.report(DRAIN_S) == "done"
        await until(self._fleet_is_up, START_S)
        drained = await self._drained()
        self.drained_s = time.monotonic() - faults_over_at
        if self.place.redis is not None:
            drained += await asyncio.to_thread(unread, self.place.redis)
        watching.cancel()
        broken = [*drained, *self.place.left_in_a_transaction()]
        for role in self.roles:
            await asyncio.to_thread(role.stop)
        deaths = [death for role in self.roles for death in role.deaths]
        charged = charged_in(self.place.url)
        ends = Ends.of(self.workers)
        if self.api.killed:
            ends = ends._replace(killed=ends.killed | self.workers[-1].names)
        ends = ends._replace(frozen=ends.frozen | self.cut_off)
        uncalled_for = list(unbegun(charged, self.begun, SLOTS, ends))
        return [
            *verdicts(self.place.url, self.crew, self.receiver.got, self.recoveries, self.snapshots, self.over_limit),
            *self.hostile.verdicts(others_ended=bool(self.done.keys() & ENDS_WORKERS)),
            Verdict("an attempt that never began is not charged", len(charged), uncalled_for),
            Verdict("no connection is left in a transaction, and all drains", 1, broken),
            Verdict(
                "a requester beside one whose store is dead does not wait for it",
                len(self.dead_store.took_s),
                kept_waiting(self.dead_store.took_s, ALLOWED_S + self.settings.slack_s),
            ),
            Verdict("nothing waits without a cause once the faults are over", self.waits.looks, self.waits.too_long),
            Verdict("no process ends by itself, and each obeys SIGTERM", len(self.roles), deaths),
            *self.long_faults.verdicts(),
        ]

    def _make_fleet(self) -> None:
        url, through = self.place.url, self.place.proxied_url
        self.begun = self.folder / "begun"
        self.place.environ["CAMPAIGN_BEGUN"] = str(self.begun)
        self.place.environ["CAMPAIGN_DEAD_STORE"] = str(self.folder / "dead_store")
        self.place.environ["EGRESS_ALLOW_HOSTS"] = f"127.0.0.1:{self.receiver.port}"
        keys = [sys.executable, "-m", "euterpe.cli", "--engine", url, "keys", "create"]
        made = subprocess.run(
            [*keys, "--requester", "local", "--scope", "submit,read,admin,worker", "--json"],
            cwd=ROOT, env={**self.place.environ, **SETTINGS}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        self.token: str = json.loads(made.stdout)["key"]
        worker = ["worker", "tests.campaign.app:queue", "--concurrency", str(SLOTS), "--metrics-port", "0"]
        ways = [through, *[url] * (self.settings.workers - 1)]
        if len(ways) > 2:
            ways[-1] = f"http://:{quote(self.token, safe='')}@127.0.0.1:{self.place.api_port}"
        self.workers = [
            Role(f"worker{i}", worker, {**self.place.environ, "CAMPAIGN_URL": way}, self.folder)
            for i, way in enumerate(ways)
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

    async def _fleet_is_up(self) -> bool:
        for role in self.roles:
            role.look()
        return all(role.is_up for role in self.roles)

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
            case "kill_in_a_burst" | "stop_in_a_burst":
                ahead = self.workers[:2]
                worker = ahead[int(fault.choice * len(ahead))]
                await self._end_in_a_burst(worker, worker.kill if fault.kind == "kill_in_a_burst" else worker.stop)
            case "kill_keeper":
                held = await self._until_it_works(worker)
                self._note(f"{worker.kill_keeper()} keepers of {worker.worker_name}, which runs {len(held)} jobs")
            case "freeze_worker":
                await self._freeze_and_thaw(worker, whole=int(fault.choice * 10) % 2 == 1)
            case "skew_clock":
                worker.clock_offset_s = OFFSETS_S[int(fault.choice * 100) % len(OFFSETS_S)]
                await self._kill_and_time(worker)
                worker.clock_offset_s = 0.0  # its next life is right again
            case "dead_store":
                await until(self._fleet_is_up, START_S)
                await self.dead_store.last()
            case "disk_full":
                await self._fill_disk(fault.lasts_s)
            case "killer_job":
                await self.hostile.kill(self.burster, self._look_after_roles)
            case "block_loop":
                await self.hostile.block(self.burster, self._look_after_roles)
            case "outage_past_the_lease":
                await self._until_it_works(worker)
                await self.long_faults.outage_past_the_lease(await self._held_by_the_living())
            case "prune_under_traffic":
                await self.long_faults.prune_under_traffic()
            case "kill_redis" | "flush_redis" | "forge_messages":
                assert self.place.redis is not None
                await RedisDamage(self.place.redis, self.place.url).do(fault)
            case "kill_dispatcher":
                self.dispatcher.kill()
                await asyncio.sleep(fault.lasts_s / 4)
                self.dispatcher.start()
            case "kill_api":
                await self._kill_api(fault.lasts_s / 4)
            case "kill_submitter":
                index = int(fault.choice * len(submitters))
                submitters[index].kill()
                notes = [note.said for actor in self._lives(index, submitters) for note in actor.notes()]
                said = [note["job_id"] for note in notes if note["number"] != parts.OF_A_LOT]
                submitters[index] = self._submitter(index, said)
            case _:
                await damage.do(fault)

    def _look_after_roles(self) -> None:
        for role in self.roles:
            role.look()

    async def _kill_api(self, lasts_s: float) -> None:
        killed_at = time.monotonic()
        self.api.kill()
        await asyncio.sleep(lasts_s)
        self.api.start()
        await until(self._api_answers, START_S)
        # Its worker notices when it asks again; on a busy machine a process takes seconds to start.
        if time.monotonic() - killed_at > LEASE_S / 3:
            self.cut_off.add(self.workers[-1].worker_name)

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
            now = await self._look(_RUNNING)
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
            f"{_RUNNING} AND worker_id LIKE '{worker.worker_name}:%'",
        )

    async def _held_by_the_living(self) -> list[tuple[str, int]]:
        alive = [w for w in self.workers if w.worker_name not in w.frozen | w.killed | self.cut_off]
        return [claim for worker in alive for claim in await asyncio.to_thread(self._held_by, worker)]

    async def _look(self, query: str) -> list[tuple[Any, ...]]:
        await asyncio.sleep(LOOK_S)
        return await asyncio.to_thread(rows, self.place.url, query)

    async def _lasting(self, worker: Role) -> dict[str, int]:
        """The claims of this worker that have run for a while."""
        since_us = time.time_ns() // 1000 - LASTS_US
        named = f"worker_id LIKE '{worker.worker_name}:%'"
        return dict(await self._look(f"{_RUNNING} AND {named} AND started_at < {since_us}"))

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
            return not set(held) & set(await self._look(_RUNNING))

        if held:
            with suppress(TimeoutError):  # then it is told as late
                await until(given_back, 4 * RECOVERY_S)
            self.recoveries.append((time.monotonic() - killed_at, RECOVERY_S + self.settings.slack_s))

    async def _end_in_a_burst(self, worker: Role, end: Callable[[], None]) -> None:
        """When it has claimed far more than it has slots for."""
        await until(self._fleet_is_up, START_S)

        async def claims_ahead() -> bool:
            return len(await asyncio.to_thread(self._held_by, worker)) > 3 * SLOTS

        await burst_until(claims_ahead, self.burster)
        self._note(f"{worker.worker_name} ends with {len(self._held_by(worker))} jobs")
        await asyncio.to_thread(end)
        worker.start()
        await self.burster.report(DRAIN_S)

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
            self.waits.look(await asyncio.to_thread(waiting, self.place.url, SLOTS * len(self.workers)))
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
