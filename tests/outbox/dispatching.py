"""Running a dispatcher inside a test, and making events for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from euterpe.backends.engines import Backend
from euterpe.egress.client import Egress
from euterpe.egress.target import EgressPolicy
from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Outcome, Success
from euterpe.model.events.outbox import OutboxEvent
from euterpe.model.failures.backoff import Backoff, Strategy
from euterpe.model.failures.circuit_breaker import BreakerPolicy
from euterpe.model.submitting.submission import Submission
from euterpe.webhook.dispatcher import Dispatcher, DispatcherSettings
from euterpe.webhook.policy import DeliveryPolicy
from euterpe.webhook.signing import new_secret
from tests.patience import PATIENCE_S

SECRET = new_secret()
QUICK_POLLS: dict[str, Any] = {"worker_id": "d1", "poll_min_s": 0.02, "poll_max_s": 0.05}
QUICK = Backoff(Strategy.CONSTANT, initial_us=20_000, max_us=20_000)


async def secrets_of(_requester_id: str) -> Sequence[str]:
    return [SECRET]


async def make_ended_job(backend: Backend, url: str, outcome: Outcome | None = None, **said: Any) -> str:
    """A job with a callback, run and ended; returns its id. Two events: running, and its end."""
    submitted = await backend.store.submit(Submission(type="work", callback_url=url, **said))
    (claim,) = await backend.store.claim(ClaimRequest(worker_id="w", limit=1))
    await backend.store.settle([Report(claim, outcome or Success(b'{"out": 1}'))])
    return submitted.job_id


async def make_ended_jobs(backend: Backend, url: str, count: int) -> None:
    """Many at once, with one event each."""
    said = Submission(type="work", callback_url=url, callback_events="terminal")
    await backend.store.submit_many([said] * count)
    claims = await backend.store.claim(ClaimRequest(worker_id="w", limit=count))
    await backend.store.settle([Report(claim, Success(b"null")) for claim in claims])


@asynccontextmanager
async def dispatching(
    backend: Backend,
    *,
    policy: EgressPolicy | None = None,
    max_attempts: int = 12,
    breaker: BreakerPolicy | None = None,
    secrets: Callable[[str], Any] = secrets_of,
    telemetry: Any = None,
    **settings: Any,
) -> AsyncIterator[Dispatcher]:
    async with Egress(policy or EgressPolicy(allow_loopback=True)) as egress:
        dispatcher = Dispatcher(
            backend.store.outbox,
            egress,
            secrets,
            DispatcherSettings(**QUICK_POLLS | settings),
            wakeups=backend.wakeups,
            telemetry=telemetry,
            # High by default, so that a test about retries is not about the breaker.
            breaker=breaker or BreakerPolicy(min_samples=1000),
            policy=DeliveryPolicy(max_attempts, Random(1), QUICK),
        )
        task = asyncio.get_running_loop().create_task(dispatcher.run())
        try:
            yield dispatcher
        except BaseException:
            dispatcher.stop()  # and again below: a test that failed waits for no delivery
            raise
        finally:
            dispatcher.stop()
            async with asyncio.timeout(30):
                await task


async def until_settled(
    backend: Backend, event_ids: set[str] | None = None, timeout_s: float = PATIENCE_S
) -> dict[str, str]:
    """Wait until no event is under way any more; returns the states by event id."""
    async with asyncio.timeout(timeout_s):
        while True:
            found = {event.id: event.state for _, event in await backend.store.outbox.search(limit=1000)}
            if found and all(state in ("completed", "dead_letter") for state in found.values()):
                return found
            await asyncio.sleep(0.01)


async def until_one_is_put_off(backend: Backend, timeout_s: float = PATIENCE_S) -> OutboxEvent:
    async with asyncio.timeout(timeout_s):
        while True:
            for _, event in await backend.store.outbox.search():
                if event.state == "retrying":
                    return event
            await asyncio.sleep(0.01)
