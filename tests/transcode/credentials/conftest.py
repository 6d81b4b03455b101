"""A store with a running job, on every engine, and credentials for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from euterpe.crypto import Keyring
from euterpe.stores.sql.store import SqlStore
from euterpe.transcode.credentials.repository import CredentialStore
from tests.conformance.clock import FrozenClock
from tests.conformance.conftest import migrated_postgres_url, sqlite_template
from tests.conformance.engines import ENGINES, Opened, Place
from tests.transcode.storage.conftest import moto, rclone

__all__ = ["migrated_postgres_url", "moto", "rclone", "sqlite_template"]


def keyring(*names: str) -> Keyring:
    """The last one wraps."""
    return Keyring({name: name.encode().ljust(32, b"-") for name in names}, names[-1])


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture(params=["sqlite", "postgres"])
def engine_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def place(engine_name: str, sqlite_template: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    # Only a Postgres test asks for the server, so that `-k sqlite` starts none.
    postgres_url = request.getfixturevalue("migrated_postgres_url") if engine_name == "postgres" else ""
    return Place(sqlite_template, tmp_path, postgres_url)


@pytest.fixture
async def opened(engine_name: str, place: Place, clock: FrozenClock) -> AsyncIterator[Opened]:
    async with ENGINES[engine_name](place, clock) as made:
        yield made


@pytest.fixture
def jobs(opened: Opened) -> SqlStore:
    return opened.store


@pytest.fixture
def credentials(jobs: SqlStore) -> CredentialStore:
    return CredentialStore(jobs.engine, keyring("k1"))
