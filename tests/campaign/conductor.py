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
from pathlib import Path

import apsw
import psycopg

from tests.campaign import parts
from tests.campaign.damage import Damage
from tests.campaign.place import Place
from tests.campaign.plan import Fault, faults
from tests.campaign.processes import LEASE_S, ROOT, SETTINGS, SWEEP_S, Role
from tests.campaign.verdicts import Verdict, limits_in, verdicts
from tests.faults.crew import Actor, Crew, until
from tests.faults.recorder import rows, run
from tests.outbox.receiver import Receiver

RECOVERY_S = LEASE_S + 3 * SWEEP_S + 1.0
"""Lost jobs are looked for at every third sweep."""
DRAIN_S = 60.0


@dataclass
class Settings:
    seed: int
    jobs: int
    seconds: float
    workers: int = 3


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
        operator = self.crew.start(parts.operator, self.place.url, self.settings.seed)
        watching = asyncio.create_task(self._watch_limits())
        await self._break(submitters)
        await self._all_submitted(submitters)
        operator.order("stop")
        drained = await self._drained()
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
        return self.crew.start(parts.submitter, url, token, seed, numbers, self.receiver.url, pause_s, list(done or []))

    # --- faults -----------------------------------------------------------------------------------

    async def _break(self, submitters: list[Actor]) -> None:
        ends_at = time.monotonic() + self.settings.seconds
        damage = Damage(self.place, self.receiver)
        for fault in faults(self.settings.seed, self.place.engine):
            if time.monotonic() + fault.pause_s > ends_at:
                return
            await asyncio.sleep(fault.pause_s)
            await self._inject(fault, damage, submitters)
            self.done[fault.kind] += 1
            for role in self.roles:
                role.look()

    async def _inject(self, fault: Fault, damage: Damage, submitters: list[Actor]) -> None:
        worker = self.workers[int(fault.choice * len(self.workers))]
        match fault.kind:
            case "kill_worker":
                await self._kill_and_time(worker)
            case "freeze_worker":
                worker.freeze()
                await asyncio.sleep(LEASE_S + 1)
                worker.thaw()
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

    def _lives(self, index: int, submitters: list[Actor]) -> list[Actor]:
        self.earlier.setdefault(index, []).append(submitters[index])
        return self.earlier[index]

    async def _kill_and_time(self, worker: Role) -> None:
        worker.kill()
        killed_at = time.monotonic()
        held = rows(
            self.place.url,
            "SELECT CAST(id AS text), claim_version FROM inbox_jobs"
            f" WHERE state = 'running' AND worker_id LIKE '{worker.worker_name}:%'",
        )
        worker.start()

        async def given_back() -> bool:
            now = rows(self.place.url, "SELECT CAST(id AS text), claim_version FROM inbox_jobs WHERE state = 'running'")
            return not set(held) & set(now)

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
            await asyncio.sleep(0.1)

    async def _all_submitted(self, submitters: list[Actor]) -> None:
        for submitter in submitters:
            assert await submitter.report(DRAIN_S + 2 * self.settings.seconds) == "done"
            submitter.order("stop")

    async def _drained(self) -> list[str]:
        """Jobs end and events are delivered by the fleet itself; only waits between deliveries are cut short."""

        async def nothing_left() -> bool:
            for role in self.roles:
                role.look()
            run(self.place.url, "UPDATE job_outbox_events SET run_at = 0 WHERE state = 'retrying'")
            await asyncio.sleep(0.2)
            ends = "('completed', 'failed', 'dead_letter', 'cancelled')"
            ((jobs,),) = rows(self.place.url, f"SELECT count(*) FROM inbox_jobs WHERE state NOT IN {ends}")
            ((events,),) = rows(self.place.url, "SELECT count(*) FROM job_outbox_events WHERE state <> 'completed'")
            return not jobs and not events

        try:
            await until(nothing_left, DRAIN_S)
        except TimeoutError:
            jobs = rows(self.place.url, "SELECT state, count(*) FROM inbox_jobs GROUP BY state")
            events = rows(self.place.url, "SELECT state, count(*), max(error) FROM job_outbox_events GROUP BY state")
            return [f"not drained after {DRAIN_S:.0f} s: jobs {jobs}, events {events}"]
        return []
