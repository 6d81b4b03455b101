"""Forward-only schema migrations: numbered files, applied once, in order, never edited after release."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Final

from euterpe.model.errors import SchemaMismatch
from euterpe.stores.sql.statements import Family

LEDGER: Final = """
CREATE TABLE euterpe_migrations (
    version    integer NOT NULL PRIMARY KEY,
    name       text    NOT NULL,
    applied_at bigint  NOT NULL
)
"""
OLD_LEDGER: Final = "schema_migrations"
"""What the ledger was called before migration 2. Rails, Ecto and others keep their own ledger under the same name."""
OLD_LEDGER_IS_OURS: Final = "SELECT 1 FROM schema_migrations WHERE version = 1 AND name = 'jobs'"
"""Asked only of a table with exactly our columns."""
PREFIXING: Final = 2
"""The migration that gave our tables their prefix."""
PREFIXED: Final = {
    "schema_migrations": "euterpe_migrations",
    "api_keys": "euterpe_api_keys",
    "requesters": "euterpe_requesters",
    "webhook_secrets": "euterpe_webhook_secrets",
    "webhook_secrets_requester": "euterpe_webhook_secrets_requester",
    "pauses": "euterpe_pauses",
    "job_tombstones": "euterpe_tombstones",
    "job_tombstones_age": "euterpe_tombstones_age",
    "outbox_deliveries": "euterpe_outbox_deliveries",
    "ended_attempts": "euterpe_ended_attempts",
    "jobs_readable": "euterpe_jobs",
}
OPTIONAL: Final = frozenset({31})
"""On SQLite. What they do makes statements cheaper and nothing else, so a database that refuses it goes on without."""
_OLD_NAME: Final = re.compile(rf"\b({'|'.join(PREFIXED)})\b")


def applied_by(ledger: str) -> str:
    """The statement that asks a ledger which versions were applied."""
    return f"SELECT version FROM {ledger} ORDER BY version"  # noqa: S608  # one of our two names for it


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str


@cache
def migrations(family: Family) -> tuple[Migration, ...]:
    folder = files("euterpe.stores.sql").joinpath("schema", family)
    found = []
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.name.endswith(".sql"):
            version, _, name = entry.name.removesuffix(".sql").partition("_")
            found.append(Migration(int(version), name, entry.read_text()))
    return tuple(found)


def not_migrated(place: str, error: Exception | str) -> SchemaMismatch:
    return SchemaMismatch(
        f"{place} lacks tables or columns of this release ({error}): run `euterpe migrate`; "
        "or name the queue's own schema, as in postgresql://host/name?schema=jobs"
    )


def no_rights(place: str, error: Exception | str) -> SchemaMismatch:
    return SchemaMismatch(
        f"{place} refuses this user ({error}): let the owner of the schema run `euterpe migrate`, "
        "and grant this user USAGE on it and SELECT, INSERT, UPDATE and DELETE on its tables"
    )


def missing(family: Family, applied: set[int]) -> list[Migration]:
    """What is still to be applied; refuses a database that a newer release has migrated."""
    known = migrations(family)
    unknown = applied - {m.version for m in known}
    if unknown:
        raise SchemaMismatch(
            f"the database has migration {max(unknown)}, this release knows up to {known[-1].version}: "
            "upgrade euterpe-queue on this machine"
        )
    if not applied:
        return [_with_prefixed_names(m) for m in known]
    return [m for m in known if m.version not in applied]


def _with_prefixed_names(migration: Migration) -> Migration:
    """For a database without our tables. Making them under the old names first, only to rename them, would fail
    wherever the application has an `api_keys` of its own."""
    if migration.version < PREFIXING:
        return replace(migration, sql=_OLD_NAME.sub(lambda old: PREFIXED[old[1]], migration.sql))
    return replace(migration, sql="SELECT 1") if migration.version == PREFIXING else migration
