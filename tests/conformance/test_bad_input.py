"""Bad input: a typed error that names the field, before anything is written; one bad caller never hurts another."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from euterpe.model.errors import InvalidInput
from euterpe.model.submitting.batch import Draft, new_ids
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import job, submit, take
from tests.conformance.engines import Tables, row_counts
from tests.conformance.needs import needs

LONG = 3650 * 86_400 * 1_000_000

BAD: list[tuple[str, dict[str, Any]]] = [
    ("type", {"type": ""}),
    ("type", {"type": "x" * 201}),
    ("type", {"type": "a\x00b"}),
    ("type", {"type": "\ud800"}),
    ("type", {"type": None}),
    ("queue", {"queue": ""}),
    ("queue", {"queue": "q" * 201}),
    ("queue", {"queue": "\x00"}),
    ("requester_id", {"requester_id": ""}),
    ("requester_id", {"requester_id": "a\x00"}),
    ("payload", {"payload": "text"}),
    ("payload", {"payload": b"x" * 1_000_001}),
    ("payload_format", {"payload_format": "xml"}),
    ("priority", {"priority": 5}),
    ("priority", {"priority": "high"}),
    ("max_attempts", {"max_attempts": 0}),
    ("max_attempts", {"max_attempts": 2**40}),
    ("delay", {"delay_us": -1}),
    ("delay", {"delay_us": LONG + 1}),
    ("run_at", {"run_at": -1}),
    ("run_at", {"run_at": 2**62}),
    ("timeout", {"execution_timeout_us": 0}),
    ("visibility", {"visibility_us": 0}),
    ("lifetime", {"lifetime_us": 0}),
    ("retry", {"retry": "never"}),
    ("stages", {"stages": ("fetching",)}),
    ("stages", {"stages": ("claimed", "a\x00b")}),
    ("idempotency_key", {"idempotency_key": "k" * 257}),
    ("idempotency_key", {"idempotency_key": "a\x00b"}),
    ("correlation_id", {"correlation_id": "c" * 257}),
    ("correlation_id", {"correlation_id": "\udfff"}),
    ("tags", {"tags": {"": "x"}}),
    ("tags", {"tags": {"a\x00": "x"}}),
    ("tags.a", {"tags": {"a": "\x00"}}),
    ("tags.a", {"tags": {"a": 1}}),
    ("depends_on", {"depends_on": ("nonsense",)}),
    ("depends_on", {"depends_on": "abc"}),
    ("dependency", {"depends_on": ("x",), "dependency": "after"}),
    ("callback_url", {"callback_url": "ftp://x"}),
    ("callback_url", {"callback_url": "https://x/\x00"}),
    ("callback_events", {"callback_events": "some"}),
    ("concurrency_limit", {"concurrency_limit": 2}),
    ("unique_key", {"unique_key": ""}),
    ("concurrency_limit", {"concurrency_limit": 1}),
    ("concurrency_key", {"concurrency_key": "\x00", "concurrency_limit": 1}),
]


async def test_bad_input_is_refused_by_name_on_every_path_and_nothing_is_stored(
    store: SqlStore, tables: Tables
) -> None:
    parent = await submit(store, "parent")
    [claim] = await take(store)
    assert claim.job.id == parent
    before = await row_counts(tables)
    for field, said in BAD:
        bad = job(**said)
        for attempt in (
            store.submit(bad),
            store.submit_many([job(idempotency_key="good"), bad], key="batch"),
            store.submit_graph([Draft(new_ids(1)[0], job()), Draft(new_ids(1)[0], bad)]),
            store.spawn(claim.lease, [job(), bad]),
        ):
            with pytest.raises(InvalidInput) as refused:
                await attempt
            assert refused.value.field == field, said
            assert field in str(refused.value)
            str(refused.value).encode()
    assert await row_counts(tables) == before


@needs(Capability.DEPENDENCIES)
async def test_a_refused_submit_never_disturbs_others_that_wait_for_the_same_commit(store: SqlStore) -> None:
    async def attempt(said: dict[str, Any]) -> bool:
        try:
            await store.submit(job(**said))
        except InvalidInput:
            return False
        return True

    mixed = [said for _, bad in BAD for said in (bad, {})]
    stored = await asyncio.gather(*(attempt(said) for said in mixed))
    assert stored == [said == {} for said in mixed]
    assert len(await take(store, 1000)) == len(BAD)
