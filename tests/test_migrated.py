"""The spare schemas: what one test did with its schema, the next cannot see."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import psycopg
import pytest

from euterpe.model.submitting.submission import Submission
from tests.faults.recorder import rows, run, schema_of
from tests.faults.stores import opened
from tests.migrated import SpareSchemas


@pytest.fixture
def spares(postgres_url: str) -> Iterator[SpareSchemas]:
    """A heap of this test's own, so that it knows which schema it will be lent."""
    mine = SpareSchemas(postgres_url, secrets.token_hex(4))
    yield mine
    mine.drop_all()


def identity_of(url: str) -> list[tuple[int]]:
    return rows(url, f"SELECT '{schema_of(url)}.inbox_jobs'::regclass::oid::bigint")


async def test_a_schema_is_lent_again_under_another_name_without_a_row_and_numbers_begin_anew(
    spares: SpareSchemas,
) -> None:
    seen = []
    for _ in range(2):
        with spares.lent() as url:
            async with opened(url) as store:
                await store.submit_many([Submission(type="t"), Submission(type="t")])
            seen.append((identity_of(url), rows(url, "SELECT seq FROM inbox_jobs ORDER BY seq")))
            names = schema_of(url)
    assert seen[0] == seen[1]
    assert seen[0][1] == [(1,), (2,)]
    with spares.lent() as url:
        assert schema_of(url) != names


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE more (id int)",
        "DROP INDEX inbox_jobs_due",
        "ALTER TABLE inbox_jobs ADD COLUMN more int",
        "ALTER TABLE inbox_jobs ALTER COLUMN queue SET DEFAULT 'other'",
        "ALTER TABLE inbox_jobs ADD CONSTRAINT short CHECK (length(type) < 9)",
        "ALTER TABLE inbox_jobs SET (autovacuum_enabled = off)",
        "GRANT SELECT ON inbox_jobs TO public",
        "CREATE FUNCTION one() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE RULE nothing AS ON DELETE TO inbox_jobs DO INSTEAD NOTHING",
        "DELETE FROM euterpe_migrations WHERE version = 1",
    ],
)
def test_a_schema_that_was_changed_is_never_lent_again(spares: SpareSchemas, change: str) -> None:
    with spares.lent() as url:
        first = identity_of(url)
        run(url, change)
    with spares.lent() as url:
        assert identity_of(url) != first


def test_a_schema_with_many_pages_is_lent_again_without_them(
    spares: SpareSchemas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.migrated.MOST_BYTES", 32 << 10)
    with spares.lent() as url:
        first = identity_of(url)
        run(url, "INSERT INTO euterpe_pauses SELECT 'queue', repeat('x', 999) || i, 0 FROM generate_series(1, 99) AS i")
    for _ in range(2):
        with spares.lent() as url:
            assert identity_of(url) == first
            assert rows(url, f"SELECT pg_relation_size('{schema_of(url)}.euterpe_pauses')") == [(0,)]


def test_a_transaction_that_a_test_left_open_is_an_error_of_that_test(
    spares: SpareSchemas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.migrated.LOCK_PATIENCE", "50ms")
    lending = spares.lent()
    url = lending.__enter__()
    with psycopg.connect(url.partition("?schema=")[0]) as reader:
        reader.execute(f"SELECT 1 FROM {schema_of(url)}.inbox_jobs")
        with pytest.raises(TimeoutError, match="still open"):
            lending.__exit__(None, None, None)
