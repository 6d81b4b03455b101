"""An open store of each engine on a frozen clock, as the conformance tests have it."""

from __future__ import annotations

import pytest

from tests.conformance.conftest import (
    clock,
    migrated_postgres_url,
    place,
    sqlite_template,
    store,
    subject,
    tables,
)
from tests.refused.refusing import Refusals

__all__ = ["clock", "migrated_postgres_url", "place", "sqlite_template", "store", "subject", "tables"]


@pytest.fixture(params=["sqlite", "postgres"])
def engine_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> Refusals:
    return Refusals(monkeypatch)
