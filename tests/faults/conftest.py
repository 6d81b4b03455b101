"""A migrated database of either engine with a recorder in it, and a crew of processes to let loose on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.crew import Crew
from tests.faults.recorder import record
from tests.faults.stores import engine_of


@pytest.fixture(params=["sqlite", "postgres"])
def empty_database(request: pytest.FixtureRequest) -> str:
    """The URL of a database with nothing in it."""
    url: str = request.getfixturevalue(f"bare_{request.param}_url")
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str:
    """Migrated, and every transition recorded from the first job on."""
    url: str = request.getfixturevalue("sqlite_database" if request.param == "sqlite" else "postgres_database")
    return url


@pytest.fixture
async def sqlite_database(sqlite_url: str) -> str:
    return await prepared(sqlite_url)


@pytest.fixture
def postgres_database(recorded_postgres_url: str) -> str:
    return recorded_postgres_url


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path)
    yield crew
    crew.dismiss()


async def prepared(url: str) -> str:
    await engine_of(url).migrate()
    await record(url)
    return url
