"""The explorer plays what the store sends: the same statements in the same order, which lock the same tables in the
same order and pass over the same rows. A change of the code that the explorer does not follow fails here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.state import State
from euterpe.model.submitting.changes import Changes
from euterpe.stores.sql.exchange.postgres import PostgresExchange
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.program import Row, Statement
from euterpe.stores.sql.store import SqlStore
from tests.conformance import acts
from tests.conformance.acts import job, submit, take, taken
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import opened
from tests.protocol.facts import ENTERING, LEAVING
from tests.protocol.sql_steps import Step, steps_of

LOCKS: Final[dict[str, list[tuple[str, str, str, bool]]]] = {
    "turn": [
        ("settled", "update", "inbox_jobs", False),
        ("held_long", "lock", "euterpe_line", True),
        ("free_keys", "lock", "euterpe_keys", True),
        ("held_single", "lock", "euterpe_line", True),
        ("gone", "delete", "euterpe_line", False),
        ("shortened", "update", "euterpe_line", False),
        ("taken", "update", "inbox_jobs", False),
        ("keys", "update", "euterpe_keys", False),
    ],
    "scatter": [("gone", "delete", "euterpe_line", False), ("", "insert", "euterpe_line", False)],
    "turn_around": [
        ("settled", "update", "inbox_jobs", False),
        ("around", "lock", "euterpe_line+inbox_jobs", True),
        ("free_keys", "lock", "euterpe_keys", True),
        ("gone", "delete", "euterpe_line", False),
        ("shortened", "update", "euterpe_line", False),
        ("taken", "update", "inbox_jobs", False),
        ("keys", "update", "euterpe_keys", False),
    ],
    "settle": [
        ("input", "lock", "inbox_jobs", True),
        ("settled", "update", "inbox_jobs", False),
        ("line", "insert", "euterpe_line", False),
        ("key_line", "insert", "euterpe_key_line", False),
    ],
    "settle_completed": [("free", "lock", "inbox_jobs", True), ("", "update", "inbox_jobs", False)],
    "expired_leases": [("", "lock", "inbox_jobs", True)],
    "get_jobs_for_update": [("", "lock", "inbox_jobs", False)],
    "end_waiting": [("ended", "update", "inbox_jobs", False), ("gone", "delete", "euterpe_line", False)],
    "update_metadata": [
        ("changed", "update", "inbox_jobs", False),
        ("gone", "delete", "euterpe_line", False),
        ("line", "insert", "euterpe_line", False),
        ("key_line", "insert", "euterpe_key_line", False),
    ],
    "hold_keys": [("", "insert", "euterpe_keys", False)],
    "recount_line": [
        ("no_longer_waiting", "delete", "euterpe_key_line", False),
        ("strays", "lock", "euterpe_line", False),
        ("gone", "delete", "euterpe_line", False),
        ("", "update", "euterpe_keys", False),
    ],
    "admit": [
        ("left_key_line", "delete", "euterpe_key_line", False),
        ("line", "insert", "euterpe_line", False),
        ("counted", "update", "euterpe_keys", False),
    ],
    "admit_in_order": [
        ("leaving", "lock", "euterpe_line", True),
        ("left_line", "delete", "euterpe_line", False),
        ("returned", "insert", "euterpe_key_line", False),
        ("left_key_line", "delete", "euterpe_key_line", False),
        ("line", "insert", "euterpe_line", False),
        ("counted", "update", "euterpe_keys", False),
    ],
    "insert_one": [("entering", "insert", "inbox_jobs", False), ("line", "insert", "euterpe_line", False)],
    "insert_uniform": [
        ("entering", "insert", "inbox_jobs", False),
        ("line", "insert", "euterpe_line", False),
        ("key_line", "insert", "euterpe_key_line", False),
    ],
}
"""What `programs.py` makes of each statement: part, verb, tables, whether it skips what somebody holds."""
PROTECTED: Final = frozenset({"inbox_jobs", "euterpe_line", "euterpe_keys", "euterpe_key_line"})
ORDER: Final = ("inbox_jobs", "euterpe_line", "euterpe_key_line", "euterpe_keys")
"""Whoever waits for locks takes them in this order, statement by statement."""
ASK: Final = ClaimRequest(worker_id="w1", limit=10)
KEY: Final[dict[str, Any]] = {"concurrency_key": "k", "concurrency_limit": 1}


@pytest.mark.parametrize("statement", LOCKS)
def test_a_statement_locks_what_the_explorer_locks(statement: str) -> None:
    assert [tuple(step) for step in _protected(statement)] == LOCKS[statement]


@pytest.mark.parametrize("statement", sorted({*ENTERING, *LEAVING, "settle", "end_waiting"}))
def test_a_statement_that_waits_takes_rows_before_the_line_and_keys_last(statement: str) -> None:
    places = [ORDER.index(step.table) for step in _protected(statement) if not step.skips]
    assert places == sorted(places)


def _protected(statement: str) -> list[Step]:
    return [step for step in steps_of(statement) if step.table.split("+")[0] in PROTECTED]


class Recorded:
    """The names of the statements that the store sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        sent = PostgresEngine.execute

        async def execute(
            engine: PostgresEngine, connection: Any, statement: Statement, timeout_s: float | None = None
        ) -> list[Row]:
            self.names.append(statement.name)
            return await sent(engine, connection, statement, timeout_s)

        monkeypatch.setattr(PostgresEngine, "execute", execute)

    def of_the_protocol(self) -> list[str]:
        return [name for name in self.names if name in LOCKS]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    return Recorded(monkeypatch)


@pytest.fixture
async def store(fresh_postgres_url: str) -> AsyncIterator[SqlStore]:
    async with opened(PostgresEngine(fresh_postgres_url, FrozenClock())) as store:
        yield store


Prepare = Callable[[SqlStore], Awaitable[Any]]
Do = Callable[[SqlStore, Any], Awaitable[Any]]


async def _lone(store: SqlStore) -> str:
    return await submit(store)


async def _turned(store: SqlStore, claim: Any) -> None:
    verdicts, _ = await store.exchange([Report(claim, Success(b"1"))], ASK)
    assert verdicts[0].accepted


async def _around(store: SqlStore, _: str) -> None:
    exchange = store._exchange  # as after a turn that waited in vain
    assert isinstance(exchange, PostgresExchange)
    exchange._around_until = float("inf")
    assert len(await take(store)) == 1


async def _keyed(store: SqlStore) -> Any:
    return await taken(store, **KEY)


async def _waits_for_its_key(store: SqlStore) -> str:
    await taken(store, "first", **KEY)
    return await submit(store, "second", **KEY)


SENT: Final[dict[str, tuple[Prepare, Do, list[str]]]] = {
    "submit": (lambda _: _nothing(), lambda store, _: submit(store), ["insert_one"]),
    "submit of a run": (
        lambda _: _nothing(),
        lambda store, _: store.submit_many([job(payload=b"1"), job(payload=b"2")]),
        ["insert_uniform"],
    ),
    "turn": (_lone, lambda store, _: take(store), ["turn"]),
    "turn that settles": (taken, _turned, ["turn"]),
    "turn_around": (_lone, _around, ["scatter", "turn_around"]),
    "settle: complete, with a key": (_keyed, acts.complete, ["settle_completed", "hold_keys", "admit"]),
    "settle: retry": (taken, acts.fail, ["settle"]),
    "settle: release": (taken, acts.release, ["settle"]),
    "settle: release, with a key": (_keyed, acts.release, ["settle", "hold_keys", "admit"]),
    "cancel": (_lone, lambda store, job_id: store.cancel(job_id), ["get_jobs_for_update", "end_waiting"]),
    "cancel by force": (
        taken,
        lambda store, claim: store.cancel(claim.job.id, force=True),
        ["get_jobs_for_update", "settle"],
    ),
    "cancel, with a key": (
        _waits_for_its_key,
        lambda store, job_id: store.cancel(job_id),
        ["get_jobs_for_update", "end_waiting", "hold_keys", "recount_line", "admit_in_order"],
    ),
    "reprioritise": (
        _lone,
        lambda store, job_id: store.update(job_id, Changes(priority=0)),
        ["get_jobs_for_update", "update_metadata"],
    ),
    "reprioritise, with a key": (
        _waits_for_its_key,
        lambda store, job_id: store.update(job_id, Changes(priority=0)),
        ["get_jobs_for_update", "update_metadata", "hold_keys", "recount_line", "admit_in_order"],
    ),
}


async def _nothing() -> None:
    return None


@pytest.mark.parametrize("act", SENT)
async def test_an_act_of_the_store_sends_what_the_explorer_plays(store: SqlStore, recorded: Recorded, act: str) -> None:
    prepare, do, names = SENT[act]
    prepared = await prepare(store)
    recorded.names.clear()
    await do(store, prepared)
    assert recorded.of_the_protocol() == names


async def test_a_sweep_sends_what_the_explorer_plays(fresh_postgres_url: str, recorded: Recorded) -> None:
    clock = FrozenClock()
    async with opened(PostgresEngine(fresh_postgres_url, clock)) as store:
        claim = await taken(store)
        clock.advance(hours=1)
        recorded.names.clear()
        assert await store.sweeps.reclaim() == 1
        assert recorded.of_the_protocol() == ["expired_leases", "settle"]
        found = await store.get(claim.job.id)
        assert found is not None
        assert found.state is State.RETRYING
