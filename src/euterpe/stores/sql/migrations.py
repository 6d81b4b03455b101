"""Forward-only schema migrations: numbered files, applied once, in order, never edited after release.

The first is the baseline, with every table. Development had others before it: a database that they made is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
LEDGER_TABLE: Final = "euterpe_migrations"
JOBS_TABLE: Final = "inbox_jobs"
APPLIED: Final = "SELECT version, name FROM euterpe_migrations"


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


class MadeBeforeBaseline(SchemaMismatch):
    """A development version from before the first release made this database."""

    what: Final = (
        "a development version of Euterpe from before its first release made this database, "
        "and its jobs cannot be carried over"
    )

    def __init__(self, family: Family) -> None:
        self.remedy = (
            "make it anew: stop every process of the queue, "
            + ("remove the file and its -wal and -shm" if family == "sqlite" else "drop its schema or database")
            + ", and run `euterpe migrate`; to drop the queue's tables alone, see docs/upgrading.md"
        )
        super().__init__(f"{self.what}: {self.remedy}")


def missing(family: Family, applied: Mapping[int, str], *, has_jobs: bool = False) -> list[Migration]:
    """What is still to be applied. `applied` is the ledger: names by versions. `has_jobs`: there is a table of jobs.

    Refuses a database from before the baseline, and one that a newer release has migrated."""
    known = migrations(family)
    if (applied or has_jobs) and applied.get(known[0].version) != known[0].name:
        raise MadeBeforeBaseline(family)
    unknown = applied.keys() - {m.version for m in known}
    if unknown:
        raise SchemaMismatch(
            f"the database has migration {max(unknown)}, this release knows up to {known[-1].version}: "
            "upgrade euterpe-queue on this machine"
        )
    return [m for m in known if m.version not in applied]
