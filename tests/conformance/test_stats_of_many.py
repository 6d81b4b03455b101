"""Counts of more jobs than anybody counts: what is small stays exact, what is large is near, and says so."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from euterpe.model.claims.exchange import Report
from euterpe.model.claims.outcome import Success
from euterpe.ports import Capability
from euterpe.stores.sql.reads import stats as reading
from euterpe.stores.sql.reads.stats import estimated
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import job, take
from tests.conformance.engines import PostgresTables, Tables
from tests.conformance.needs import needs

DONE = {"a": 300, "b": 100, "rare": 1}


async def completed(store: SqlStore) -> None:
    kinds = [kind for kind, count in DONE.items() for _ in range(count)]
    random.Random(7).shuffle(kinds)
    await store.submit_many([job(kind, queue=f"of-{kind}") for kind in kinds])
    queues = tuple(f"of-{kind}" for kind in DONE)
    while claims := await take(store, 200, queues=queues, types=tuple(DONE)):
        await store.settle([Report(claim, Success(b"1")) for claim in claims])


@needs(Capability.BULK, Capability.ANY_REQUESTER)
async def test_a_state_with_many_jobs_is_estimated_and_the_others_are_exact(
    store: SqlStore, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(tables, PostgresTables):
        # Pages that earlier tests left empty count for the sample: with more than 500 it is not the whole table.
        await tables.run("TRUNCATE inbox_jobs CASCADE")
    monkeypatch.setattr(reading, "LOOKED_AT", 50)
    await completed(store)
    await store.submit_many([job("waiting", queue="w")] * 7)
    for counted, many in ((401, ()), (400, ("completed",))):
        monkeypatch.setattr(reading, "COUNTED", counted)
        found = await store.stats()
        assert (found.estimated, found.by_state["scheduled"]) == (many, 7)
        assert (found.by_queue["w"], found.by_type["waiting"]) == ({"scheduled": 7}, {"scheduled": 7})
        # Here the sample is the whole table; how near a smaller one comes, the next test tells.
        assert found.by_state["completed"] == sum(DONE.values())
        assert {kind: found.by_type[kind]["completed"] for kind in DONE} == DONE
        assert set(found.oldest_age_us) == {"w"}
    everything = (await store.stats("local")).by_state
    assert everything == {"scheduled": 7, "completed": 401}
    assert (await store.stats("nobody")).by_state == {}


def test_an_estimate_follows_the_sample_and_what_was_seen() -> None:
    a, b = ("q", "a"), ("q", "b")
    sampled = Counter({a: 30, b: 10})
    assert estimated({}, sampled, 25.0) == {a: 750, b: 250}
    assert estimated({("q", "rare"): 3}, sampled, 25.0)["q", "rare"] == 3, "what was seen is there"
    assert estimated({a: 5}, Counter(), 25.0) == {a: 5}, "a sample may miss a whole state"
