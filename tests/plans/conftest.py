"""Plans go by statistics, and a schema that another test has used has some already: here each is made anew."""

from __future__ import annotations

import pytest


@pytest.fixture
def fresh_postgres_url(bare_postgres_url: str) -> str:
    return bare_postgres_url
