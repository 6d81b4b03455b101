"""The demo as a list of small steps. Each does one thing on the stage; the proofs are read back afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec

from euterpe.cli.demo.api_calls import call
from euterpe.cli.demo.app import flaky, later, nap, prepare, queue, render, summary
from euterpe.cli.demo.console import DemoConsole, Picture
from euterpe.cli.demo.processes import LEASE, ApiFacts, DemoProcesses, Member
from euterpe.cli.demo.receiver import Receiver
from euterpe.model.claims.exchange import ClaimRequest, HeartbeatReply, Report, SettleResult
from euterpe.model.claims.outcome import Success
from euterpe.model.dependency import Dependency
from euterpe.model.job import AttemptRow, Claim, JobRow
from euterpe.model.state import TERMINAL, State
from euterpe.queue.queue import core_of
from euterpe.webhooks import VerifiedEvent

PARTS = 9
FLAKY = 3
DELAY_S = 3.0
NAP_LEASE_US = 2_000_000
POLL_S = 0.1
STEP_TIMEOUT_S = 60.0


class DemoFailed(Exception):
    """The demo could not be played to its end."""


@dataclass(slots=True)
class Steps:
    """All that the steps learn from each other."""

    processes: DemoProcesses
    stage: DemoConsole
    names: dict[str, str] = field(default_factory=dict)
    parts: list[str] = field(default_factory=list)
    flaky: list[str] = field(default_factory=list)
    later: str = ""
    summary: str = ""
    nap: str = ""
    over_http: str = ""
    api: ApiFacts | None = None
    receiver: Receiver = field(default_factory=Receiver)
    sleeper: Claim | None = None
    victim: Member | None = None
    orphans: list[str] = field(default_factory=list)
    killed_at_us: int = 0
    late_write: SettleResult | None = None
    late_beat: HeartbeatReply | None = None
    jobs: dict[str, JobRow] = field(default_factory=dict)
    attempts: dict[str, list[AttemptRow]] = field(default_factory=dict)

    async def read_jobs(self) -> list[JobRow]:
        """Every job of the demo as it is now; shown on the stage."""
        jobs = [await core_of(queue).get(job_id) for job_id in self.names]
        self.stage.show(Picture(jobs, self.names))
        return jobs

    async def until(self, condition: Callable[[list[JobRow]], bool], what: str) -> list[JobRow]:
        deadline = time.monotonic() + STEP_TIMEOUT_S
        while not condition(jobs := await self.read_jobs()):
            if ended_early := self.processes.ended_early():
                raise DemoFailed(f"{ended_early[0]} ended by itself; its log is {ended_early[0]}.log")
            if time.monotonic() > deadline:
                raise DemoFailed(f"gave up after {STEP_TIMEOUT_S:.0f} s of waiting until {what}")
            await asyncio.sleep(POLL_S)
        return jobs


Step = Callable[[Steps], Awaitable[None]]


async def submit_a_workflow(steps: Steps) -> None:
    """A graph, stored whole: prepare, then parts and flaky parts side by side, then a summary of all."""
    async with queue.workflow() as flow:
        first = flow.add(prepare, parts=PARTS)
        parts = [flow.add(render, after=[first], part=n, seconds=0.6 + 0.1 * (n % 4)) for n in range(PARTS)]
        unsure = [flow.add(flaky, after=[first], part=n) for n in range(FLAKY)]
        last = flow.add(summary, after=[*parts, *unsure], options={"dependency": Dependency.FAN_IN}, parts=PARTS)
    steps.parts, steps.flaky, steps.summary = [n.id for n in parts], [n.id for n in unsure], last.id
    steps.names[first.id] = "prepare"
    steps.names |= {node.id: f"render {n + 1}" for n, node in enumerate(parts)}
    steps.names |= {node.id: f"flaky {n + 1}" for n, node in enumerate(unsure)}
    steps.names[last.id] = "summary"
    job = await later.options(delay=DELAY_S).submit()
    steps.later, steps.names[job.id] = job.id, "later"
    steps.stage.remark(
        f"{PARTS} parts, {FLAKY} that fail twice, one delayed by {DELAY_S:g} s, and a fan-in of all parts"
    )


async def fall_asleep_with_a_job(steps: Steps) -> None:
    """Claim a job with a short lease and never renew it, as a frozen worker would."""
    job = await nap.submit()
    steps.nap, steps.names[job.id] = job.id, "nap"
    request = ClaimRequest(worker_id="sleeper:demo", limit=1, types=("demo.nap",), lease_ttl_us=NAP_LEASE_US)
    (steps.sleeper,) = await core_of(queue).store.claim(request)
    steps.stage.remark(f"a third worker takes one job, with a lease of {NAP_LEASE_US / 1e6:g} s, and falls asleep")


async def start_the_api(steps: Steps) -> None:
    """The API in a process of its own; its first start makes a key and a webhook secret."""
    steps.api = await steps.processes.api()
    steps.receiver.secret = steps.api.webhook_secret
    steps.stage.remark(f"on {steps.api.address}, with a first key of its own making")


async def start_two_workers(steps: Steps) -> None:
    await steps.processes.worker("worker-a")
    await steps.processes.worker("worker-b")
    steps.stage.remark(f"worker-a and worker-b, with leases of {LEASE}")


async def submit_over_http(steps: Steps) -> None:
    """A job in plain HTTP, with the API's first key, that wants webhooks."""
    assert steps.api is not None
    submission = {"type": "demo.hello", "payload": {"name": "world"}, "callback_url": steps.receiver.url}
    status, answer = await asyncio.to_thread(call, steps.api, "POST", "/jobs", submission)
    if status != 202:
        raise DemoFailed(f"the API answered {status} to a submission")
    steps.over_http = msgspec.json.decode(answer)["job_id"]
    steps.names[steps.over_http] = "hello"
    steps.stage.remark("one more over HTTP (202 Accepted), with a callback for webhooks")


async def kill_a_worker(steps: Steps) -> None:
    """SIGKILL for the worker-a, in the middle of its work."""
    victim = next(member for member in steps.processes.members if member.name == "worker-a")
    steps.victim = victim

    def in_hand(jobs: list[JobRow]) -> list[str]:
        return [j.id for j in jobs if j.state is State.RUNNING and (j.worker_id or "").startswith("worker-a:")]

    def in_the_middle(jobs: list[JobRow]) -> bool:
        rendered = sum(job.state is State.COMPLETED and job.id in steps.parts for job in jobs)
        return rendered >= 2 and any(job_id in steps.parts for job_id in in_hand(jobs))

    await steps.until(in_the_middle, "worker-a is in the middle of its work")
    victim.kill()
    await victim.process.wait()
    steps.killed_at_us = time.time_ns() // 1000
    # Only now is it certain what it had in hand: it can finish nothing more.
    steps.orphans = in_hand(await steps.read_jobs())
    steps.stage.remark(f"worker-a is gone (SIGKILL), with {len(steps.orphans)} jobs in hand")


async def wait_for_the_end(steps: Steps) -> None:
    """The surviving worker finds the orphans when their leases are over, and finishes everything."""
    steps.stage.remark("worker-b goes on, and takes the orphans over once their leases are over")
    await steps.until(lambda jobs: all(job.state in TERMINAL for job in jobs), "every job has ended")


async def wait_for_the_webhook(steps: Steps) -> None:
    """Delivery is at least once and apart from the job: it may take a moment longer."""
    await steps.until(lambda _: any(is_last(event) for event in steps.receiver.events), "the last webhook has come")


def is_last(event: VerifiedEvent) -> bool:
    return bool(event.payload.get("type") == "job.completed")


async def wake_up_late(steps: Steps) -> None:
    """The sleeper reports its result, long after another claim has finished the job."""
    assert steps.sleeper is not None
    (steps.late_beat,) = await core_of(queue).store.heartbeat([steps.sleeper.lease])
    (steps.late_write,) = await core_of(queue).store.settle([Report(steps.sleeper, Success(b'"from the sleeper"'))])
    steps.stage.remark("the sleeper wakes up and tries to write its result")


async def read_it_all_back(steps: Steps) -> None:
    """What the proofs go by: the database, not what the steps remember."""
    for job_id in steps.names:
        steps.jobs[job_id] = await core_of(queue).get(job_id)
        steps.attempts[job_id] = await core_of(queue).store.attempts(job_id)


STEPS: tuple[tuple[str, Step], ...] = (
    ("The API starts", start_the_api),
    ("A workflow is submitted", submit_a_workflow),
    ("", submit_over_http),
    ("", fall_asleep_with_a_job),
    ("Two workers start", start_two_workers),
    ("A worker is killed in the middle", kill_a_worker),
    ("", wait_for_the_end),
    ("", wait_for_the_webhook),
    ("", wake_up_late),
    ("", read_it_all_back),
)
