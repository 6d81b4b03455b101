"""Starts workers and submitters on a Redis of our own, breaks them and it by plan, lets all drain, and judges."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import redis

from euterpe.model.state import TERMINAL
from tests.campaign.bursts import STOP, Ends, burst_until, burster, unbegun
from tests.campaign.lists.evidence import Evidence, gather, heartbeat_left_s, held_count, still_held
from tests.campaign.lists.submitter import submitter
from tests.campaign.lists.verdicts import list_verdicts
from tests.campaign.plan import Fault, faults
from tests.campaign.processes import LEASE_S, SWEEP_S, Role
from tests.campaign.verdicts import Verdict
from tests.faults.crew import Actor, Crew, until
from tests.redis_lists.private_server import ConfiguredRedis

Fsync = Literal["always", "everysec"]
RECOVERY_S: Final = 1.5 * LEASE_S + 3 * SWEEP_S + 1.0
START_S: Final = 60.0
DRAIN_S: Final = 60.0
"""Without any job that ends."""
SUBMITTERS: Final = 2
SLOTS: Final = 8
WORKS_WITHIN_S: Final = 10.0
COPIES: Final = 5


@dataclass
class ListCampaignSettings:
    seed: int
    jobs: int
    seconds: float
    workers: int
    only: tuple[str, ...]
    fsync: Fsync
    slack_s: float
    """How much later than promised a recovery may be: this machine may have other work."""


@dataclass(frozen=True)
class Recovery:
    took_s: float
    allowed_s: float
    heartbeat_s: float
    """How long the heartbeat of the killed worker outlived it."""

    def __str__(self) -> str:
        return (
            f"it took {self.took_s:.1f} s of {self.allowed_s:.1f} s, the last {self.took_s - self.heartbeat_s:.1f} s"
            " without a heartbeat"
        )


@dataclass
class ListCampaign:
    settings: ListCampaignSettings
    server: ConfiguredRedis
    crew: Crew
    folder: Path
    done: Counter[str] = field(default_factory=Counter)
    recoveries: list[Recovery] = field(default_factory=list)
    killed_at: list[float] = field(default_factory=list)
    """When Redis was killed."""
    roles: list[Role] = field(default_factory=list)

    async def run(self) -> list[Verdict]:
        worker = ["worker", "tests.campaign.app:queue", "--concurrency", str(SLOTS), "--metrics-port", "0"]
        begun = self.folder / "begun"
        environ = {"CAMPAIGN_URL": self.server.url, "CAMPAIGN_BEGUN": str(begun)}
        names = [f"worker{i}" for i in range(self.settings.workers)]
        self.roles = [Role(name, worker, environ, self.folder) for name in names]
        for role in self.roles:
            role.start()
        submitters = [self._submitter(i, 0) for i in range(SUBMITTERS)]
        self.burster = self.crew.start(burster, self.server.url, None)
        await self._break(submitters)
        for actor in submitters:
            assert await actor.report(2 * (DRAIN_S + self.settings.seconds)) == "done"
            actor.order("stop")
        self.burster.order(STOP)
        assert await self.burster.report() == "done"
        await until(self._fleet_is_up, START_S)
        stuck = await self._drained()
        for role in self.roles:
            await asyncio.to_thread(role.stop)
        deaths = [death for role in self.roles for death in role.deaths]
        acknowledged = self.crew.notes("submitted")
        evidence = await asyncio.to_thread(gather, self.server.url)
        uncalled_for = list(unbegun(evidence.charged, begun, SLOTS, Ends.of(self.roles)))
        return [
            *list_verdicts(evidence, acknowledged, self.killed_at if self.settings.fsync == "everysec" else []),
            Verdict("an attempt that never began is not charged", len(evidence.charged), uncalled_for),
            Verdict(
                "lost jobs run again within a lease and a half, sweep and a second", len(self.recoveries), self._late()
            ),
            Verdict("all drains", len(evidence.jobs), stuck),
            Verdict("no process ends by itself, and each obeys SIGTERM", len(self.roles), deaths),
        ]

    def _submitter(self, index: int, done: int) -> Actor:
        numbers = list(range(index, self.settings.jobs, SUBMITTERS))
        pause_s = 0.7 * self.settings.seconds / max(1, len(numbers))
        return self.crew.start(submitter, self.server.url, self.settings.seed, numbers[done:], pause_s)

    # --- faults -----------------------------------------------------------------------------------

    async def _break(self, submitters: list[Actor]) -> None:
        ends_at = time.monotonic() + self.settings.seconds
        told = Counter[int]()
        for fault in faults(self.settings.seed, "redis", only=self.settings.only):
            if time.monotonic() + fault.pause_s > ends_at and self.done.keys() >= set(self.settings.only):
                return
            await asyncio.sleep(fault.pause_s)
            if fault.kind == "kill_submitter":
                index = int(fault.choice * len(submitters))
                submitters[index].kill()
                told[index] += sum(1 for _ in submitters[index].notes())
                submitters[index] = self._submitter(index, told[index])
            else:
                await self._inject(fault)
            self.done[fault.kind] += 1
            for role in self.roles:
                role.look()

    async def _inject(self, fault: Fault) -> None:
        worker = self.roles[int(fault.choice * len(self.roles))]
        match fault.kind:
            case "kill_worker":
                await self._kill_and_time(worker)
            case "kill_in_a_burst" | "stop_in_a_burst":
                await self._end_in_a_burst(worker, worker.kill if fault.kind == "kill_in_a_burst" else worker.stop)
            case "kill_keeper":
                await self._until_it_works(worker)
                worker.kill_keeper()
            case "freeze_worker":
                await self._freeze_and_thaw(worker, whole=int(fault.choice * 10) % 2 == 1)
            case "kill_redis":
                self.killed_at.append(time.time())
                await asyncio.to_thread(self.server.stop, immediate=True)
                await asyncio.sleep(fault.lasts_s)
                await asyncio.to_thread(self.server.start)
            case _:
                await asyncio.to_thread(self._disturb, fault)

    def _disturb(self, fault: Fault) -> None:
        with redis.Redis.from_url(self.server.url) as client:
            match fault.kind:
                case "pause_connections":
                    client.client_pause(int(fault.lasts_s * 1000))
                case "cut_connections":
                    client.client_kill_filter(_type="normal", skipme=True)
                case "forget_scripts":
                    client.script_flush()
                case "copy_entries":
                    _copy_entries(client, random.Random(f"copies {fault.choice}"))
                case unknown:
                    raise LookupError(unknown)

    async def _held_by(self, worker: Role) -> dict[str, int]:
        """The jobs that this worker runs, and their versions."""
        evidence = await asyncio.to_thread(gather, self.server.url)
        return evidence.running_of(f"{worker.worker_name}:")

    async def _until_it_works(self, worker: Role) -> dict[str, int]:
        held: dict[str, int] = {}

        async def works() -> bool:
            nonlocal held
            held = await self._held_by(worker)
            return bool(held)

        with suppress(TimeoutError):
            await until(works, WORKS_WITHIN_S)
        return held

    async def _kill_and_time(self, worker: Role) -> None:
        await self._until_it_works(worker)
        worker.kill()
        killed_at, dead = time.monotonic(), f"{worker.worker_name}:"
        worker.start()
        held = list((await asyncio.to_thread(gather, self.server.url)).running_of(dead))
        left_s = await asyncio.to_thread(heartbeat_left_s, self.server.url, dead)
        heartbeat_s = time.monotonic() - killed_at + left_s

        async def given_back() -> bool:
            return not await asyncio.to_thread(still_held, self.server.url, held, dead)

        with suppress(TimeoutError):
            await until(given_back, 4 * RECOVERY_S + self.settings.slack_s)
        took_s = time.monotonic() - killed_at
        self.recoveries.append(Recovery(took_s, RECOVERY_S + self.settings.slack_s, heartbeat_s))

    async def _end_in_a_burst(self, worker: Role, end: Callable[[], None]) -> None:
        """When it has claimed far more than it has slots for."""
        await until(self._fleet_is_up, START_S)

        async def claims_ahead() -> bool:
            return await asyncio.to_thread(held_count, self.server.url, f"{worker.worker_name}:") > 3 * SLOTS

        await burst_until(claims_ahead, self.burster)
        await asyncio.to_thread(end)
        worker.start()
        await self.burster.report()

    async def _fleet_is_up(self) -> bool:
        for role in self.roles:
            role.look()
        return all(role.is_up for role in self.roles)

    async def _freeze_and_thaw(self, worker: Role, *, whole: bool) -> None:
        """It wakes up when another runs one of its jobs, which it has still to write."""
        held = await self._until_it_works(worker)
        worker.freeze(whole=whole)

        async def runs_elsewhere() -> bool:
            versions = (await asyncio.to_thread(gather, self.server.url)).versions
            return not held or any(versions.get(job_id, version) > version for job_id, version in held.items())

        with suppress(TimeoutError):
            await until(runs_elsewhere, 2 * RECOVERY_S)
        await asyncio.to_thread(worker.thaw)

    def _late(self) -> list[str]:
        return [str(recovery) for recovery in self.recoveries if recovery.took_s > recovery.allowed_s]

    # --- the end ----------------------------------------------------------------------------------

    async def _drained(self) -> list[str]:
        moved_at, before = time.monotonic(), -1
        evidence = Evidence({}, {}, {}, {}, [])
        while time.monotonic() - moved_at < DRAIN_S:
            for role in self.roles:
                role.look()
            evidence = await asyncio.to_thread(gather, self.server.url)
            left = [job_id for job_id, state in evidence.states.items() if state not in TERMINAL]
            if not left:
                return []
            if before != (before := len(left)):
                moved_at = time.monotonic()
            await asyncio.sleep(0.2)
        return [f"nothing moved for {DRAIN_S:.0f} s: {Counter(evidence.states.values())}"]


def _copy_entries(client: redis.Redis, rng: random.Random) -> None:
    """Somebody pushes entries of jobs that run or have completed once more, and text that is no job at all."""
    sources = ["jobqueue:completed", *client.scan_iter("jobqueue:worker:*:processing")]
    for _ in range(COPIES):
        entries = client.lrange(rng.choice(sources), 0, 9)
        if entries:
            client.lpush("jobqueue:high_priority", rng.choice(entries))
    client.lpush("jobqueue:high_priority", f"no job {rng.random()}")
