"""One behaviour, every engine: `store` is each of `ENGINES` in turn, empty, on the frozen `clock` of the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from euterpe.ports import EVERYTHING, Capability
from euterpe.stores.redis_lists.store import RedisListStore
from euterpe.stores.remote.store import HttpStore
from euterpe.stores.sql.store import SqlStore
from tests import migrated
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import ENGINES, Opened, Place, PostgresTables, Tables
from tests.conformance.needs import TABLES, needed_by
from tests.line.at_rest import LISTS_LIE
from tests.migrated import SpareSchemas, session_of

ELSEWHERE: Final = frozenset(
    {
        "test_bad_input",
        "test_bulk_operations",
        "test_counting",
        "test_failure_groups",
        "test_graphs",
        "test_idempotency",
        "test_idempotency_windows",
        "test_migrations",
        "test_outbox_delivery",
        "test_queries",
        "test_registry",
        "test_retention",
        "test_searching",
        "test_submitting",
        "test_unique",
        "test_why",
    }
)
"""Submits, reads, operators, the outbox and the sweeps of what has ended: no claim, or one that only makes history."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A behaviour that needs a capability is asked only of the engines that have it."""
    lacking = [item for item in items if not needed_by(item) <= capabilities_of(item) or proves_nothing_more(item)]
    if lacking:
        config.hook.pytest_deselected(items=lacking)
        items[:] = [item for item in items if item not in set(lacking)]


def capabilities_of(item: pytest.Item) -> frozenset[Capability | str]:
    """What the engine of this test can do; one with tables shows them."""
    if "http over" in item.name:
        return HttpStore.capabilities | {TABLES, Capability.OUTBOX}  # within reach of the control plane
    if "[redis lists" in item.name or "-redis lists" in item.name:
        return RedisListStore.capabilities
    return EVERYTHING | {TABLES}


def proves_nothing_more(item: pytest.Item) -> bool:
    """Of a control plane on Postgres the claims of workers are at issue, and what others do to a job that one of them
    holds. All else is asked of `postgres`, and of a control plane by `http over sqlite`."""
    return "http over postgres" in item.name and item.path.stem in ELSEWHERE


@pytest.fixture(scope="session")
def sqlite_template(templates: Path) -> Path:
    """A migrated file that tests copy: a copy is cheaper than a migration with its fsyncs."""
    return migrated.sqlite_template(templates)


@pytest.fixture(scope="session")
def migrated_postgres_url(postgres_url: str, templates: Path) -> Iterator[str]:
    """One migrated schema for all tests of this worker; each test empties it first."""
    with SpareSchemas(postgres_url, session_of(templates)).lent() as url:
        yield url


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture(params=list(ENGINES))
def engine_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def place(engine_name: str, sqlite_template: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    # Only a Postgres test asks for the server, so that `-k sqlite` starts none.
    postgres_url = request.getfixturevalue("migrated_postgres_url") if "postgres" in engine_name else ""
    redis_url = request.getfixturevalue("redis_url") if engine_name == "redis lists" else ""
    return Place(sqlite_template, tmp_path, postgres_url, redis_url)


@pytest.fixture
async def subject(engine_name: str, place: Place, clock: FrozenClock) -> AsyncIterator[Opened]:
    """Whatever a test did to its jobs: on Postgres lists by state tell the truth afterwards."""
    async with ENGINES[engine_name](place, clock) as opened:
        yield opened
        if isinstance(opened.tables, PostgresTables):
            assert await opened.tables.run(LISTS_LIE) == [], "a list by state lies"


@pytest.fixture
def store(subject: Opened) -> SqlStore:
    return subject.store


@pytest.fixture
def tables(subject: Opened) -> Tables:
    return subject.tables
