"""What Redis lists cannot do says so, and stores nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import redis

from euterpe.backends.database import database_of
from euterpe.model.errors import Unsupported
from euterpe.model.reading.views import Search
from euterpe.model.submitting.batch import Unit, drafts_of
from euterpe.model.submitting.changes import Changes
from euterpe.model.submitting.submission import PAYLOAD_CEILING, Submission
from euterpe.ports import Capability
from euterpe.stores.redis_lists.store import LACKING, RedisListStore
from tests.conformance.acts import CALLBACK, job, submit

UNIT = Unit(drafts_of([Submission(type="a")]))
UNKNOWN = "00000000-0000-4000-8000-000000000000"


async def _new_callback(store: RedisListStore) -> None:
    await store.update(await submit(store), Changes(callback_url=CALLBACK))


async def _outbox(store: RedisListStore) -> None:
    await store.outbox.depth()


async def _serving(store: RedisListStore) -> None:
    assert store.control_plane is not None


WAYS: list[tuple[Capability, Callable[[RedisListStore], Awaitable[object]]]] = [
    (Capability.DEPENDENCIES, lambda store: store.submit(job(depends_on=(UNKNOWN,)))),
    (Capability.OUTBOX, lambda store: store.submit(job(callback_url=CALLBACK))),
    (Capability.OUTBOX, _new_callback),
    (Capability.OUTBOX, _outbox),
    (Capability.CONCURRENCY_KEYS, lambda store: store.submit(job(concurrency_key="k", concurrency_limit=1))),
    (Capability.KEY_RATES, lambda store: store.rates.list()),
    (Capability.UNIQUE_KEYS, lambda store: store.submit(job(unique_key="k"))),
    (Capability.CRONS, lambda store: store.crons.list()),
    (Capability.SEARCH, lambda store: store.search(Search())),
    (Capability.SEARCH, lambda store: store.stats("somebody")),
    (Capability.BULK, lambda store: store.operations.count(Search())),
    (Capability.BULK, lambda store: store.failure_groups()),
    (Capability.CALLER_TRANSACTION, lambda store: store.submit_unit_on(UNIT, object())),
    (Capability.LOG_LINES, lambda store: store.attempt_logs(UNKNOWN)),
    (Capability.CONTROL_PLANE, _serving),
]


@pytest.mark.parametrize(("capability", "act"), WAYS)
async def test_it_says_so(
    store: RedisListStore, raw: redis.Redis, capability: Capability, act: Callable[[RedisListStore], Awaitable[object]]
) -> None:
    assert capability not in store.capabilities
    with pytest.raises(Unsupported, match="use a SQL engine"):
        await act(store)
    assert raw.llen("jobqueue:normal_priority") <= 1


def test_every_lacking_capability_is_tried_here(store: RedisListStore) -> None:
    # Who asks for jobs ahead gets none, which is no error.
    assert {capability for capability, _ in WAYS} == LACKING - {Capability.PREFETCH}
    with pytest.raises(Unsupported):
        store.submit_unit_on_sync(UNIT, object())
    with pytest.raises(Unsupported, match="SQL database"):
        database_of(store)


@pytest.mark.parametrize("limit", [0, -1, PAYLOAD_CEILING + 1])
def test_no_other_payload_limit_can_be_set(limit: int) -> None:
    with pytest.raises(ValueError, match="payload_limit"):
        RedisListStore("redis://127.0.0.1", payload_limit=limit)
