"""A schema of each test's own, in which every move of a job is noted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.recorder import run
from tests.interleavings.scenario import AUDIT
from tests.migrated import SpareSchemas, session_of


async def audited(url: str) -> None:
    run(url, AUDIT)


@pytest.fixture
def audited_url(postgres_url: str, templates: Path) -> Iterator[str]:
    with SpareSchemas(postgres_url, session_of(templates), audited).lent() as url:
        yield url
