"""Forward-only schema migrations: numbered files, applied once, in order, never edited after release."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from euterpe.model.errors import SchemaMismatch
from euterpe.store.dialect import Family

LEDGER: Final = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version    integer NOT NULL PRIMARY KEY,
    name       text    NOT NULL,
    applied_at bigint  NOT NULL
)
"""
APPLIED: Final = "SELECT version FROM schema_migrations ORDER BY version"


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str


@cache
def migrations(family: Family) -> tuple[Migration, ...]:
    folder = files("euterpe.store").joinpath("schema", family)
    found = []
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.name.endswith(".sql"):
            version, _, name = entry.name.removesuffix(".sql").partition("_")
            found.append(Migration(int(version), name, entry.read_text()))
    return tuple(found)


def not_migrated(place: str, error: Exception) -> SchemaMismatch:
    return SchemaMismatch(f"{place} lacks tables or columns of this release ({error}): run `euterpe migrate`")


def no_rights(place: str, error: Exception) -> SchemaMismatch:
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
    return [m for m in known if m.version not in applied]
