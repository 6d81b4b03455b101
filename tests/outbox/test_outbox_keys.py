"""The keys of the section `outbox` have an effect, seen in the claims of a dispatcher and at its receivers."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from typing import Any

import pytest

from euterpe.backends.engines import Backend
from euterpe.config import load_config
from euterpe.egress.client import Egress
from euterpe.egress.target import EgressPolicy
from euterpe.webhook.dispatcher import Dispatcher
from euterpe.webhook.settings import dispatcher_settings
from tests.outbox.dispatching import make_ended_jobs, secrets_of, until_settled
from tests.outbox.receiver import answer, receiving
from tests.patience import PATIENCE_S


class Watched:
    """An outbox whose claims are written down: when, and for how many."""

    def __init__(self, outbox: Any) -> None:
        self._outbox = outbox
        self.claims: list[tuple[float, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._outbox, name)

    async def claim(self, worker_id: str, limit: int, *more: Any, **options: Any) -> Any:
        self.claims.append((time.monotonic(), limit))
        return await self._outbox.claim(worker_id, limit, *more, **options)


async def running(backend: Backend, watched: Watched, **environ: str) -> tuple[Dispatcher, asyncio.Task[None], Egress]:
    settings = dispatcher_settings(load_config(None, environ), "d1", 60_000_000, 1.0)
    egress = Egress(EgressPolicy(allow_loopback=True))
    await egress.__aenter__()
    dispatcher = Dispatcher(watched, egress, secrets_of, settings)
    return dispatcher, asyncio.get_running_loop().create_task(dispatcher.run()), egress


async def ended(dispatcher: Dispatcher, task: asyncio.Task[None], egress: Egress) -> None:
    dispatcher.stop()
    async with asyncio.timeout(PATIENCE_S):
        await task
    await egress.__aexit__(None, None, None)


async def until(true: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():  # noqa: ASYNC110  # lists have no events
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(("said", "limit"), [({}, 10), ({"OUTBOX_BATCH": "3"}, 3), ({"OUTBOX_BATCH": "25"}, 25)])
async def test_a_claim_takes_ten_events_unless_told_otherwise(
    backend: Backend, said: dict[str, str], limit: int
) -> None:
    watched = Watched(backend.store.outbox)
    started = await running(backend, watched, **said)
    await until(lambda: watched.claims)
    await ended(*started)
    assert {count for _, count in watched.claims} == {limit}


async def test_no_more_than_the_configured_number_is_sent_at_once(backend: Backend) -> None:
    watched = Watched(backend.store.outbox)
    async with receiving() as receiver:
        under_way: list[int] = []
        await make_ended_jobs(backend, receiver.url, 40)
        dispatcher, task, egress = await running(backend, watched, OUTBOX_CONCURRENCY="2")
        deliver = dispatcher._deliver

        async def counted(event: Any) -> Any:
            under_way.append(dispatcher._sending)
            return await deliver(event)

        dispatcher._deliver = counted  # type: ignore[method-assign]  # the real one, watched
        assert set((await until_settled(backend)).values()) == {"completed"}
        await ended(dispatcher, task, egress)
        assert len({got.event_id for got in receiver.got}) == 40
        assert max(under_way) <= 2


async def test_an_event_is_given_up_after_the_configured_attempts(backend: Backend) -> None:
    watched = Watched(backend.store.outbox)
    async with receiving(lambda _got: answer(500)) as receiver:
        await make_ended_jobs(backend, receiver.url, 1)
        started = await running(backend, watched, OUTBOX_MAX_ATTEMPTS="1")
        assert set((await until_settled(backend)).values()) == {"dead_letter"}
        await ended(*started)
        assert len(receiver.got) == 1


@pytest.mark.parametrize(("said", "least_s"), [({"MIN": "1400ms"}, 1.4), ({"MIN": "1600ms", "MAX": "1600ms"}, 1.6)])
async def test_an_idle_dispatcher_looks_no_more_often_than_said(
    backend: Backend, said: dict[str, str], least_s: float
) -> None:
    watched = Watched(backend.store.outbox)
    started = await running(backend, watched, **{f"OUTBOX_POLL_{name}": value for name, value in said.items()})
    await until(lambda: len(watched.claims) >= 3)
    await ended(*started)
    times = [at for at, _ in watched.claims[:3]]
    assert all(later - sooner >= least_s - 0.01 for sooner, later in pairwise(times))
