"""The engines that our own side of the benchmark runs on."""

from __future__ import annotations

import pytest

from bench.harness.catalogue import StoreKind


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> tuple[StoreKind, str]:
    name = "sqlite_url" if request.param == "sqlite" else "fresh_postgres_url"
    return request.param, request.getfixturevalue(name)
