"""What there is to know of a queue, its database and its machine. The defaults are those of a healthy one.

Ages and times are microseconds.
"""

from __future__ import annotations

import msgspec

from euterpe.model.claims.presence import LiveWorker


class WaitingType(msgspec.Struct, frozen=True):
    """Jobs at the front of a queue."""

    queue: str
    type: str
    count: int
    oldest_age_us: int


class PauseFact(msgspec.Struct, frozen=True):
    kind: str
    name: str
    age_us: int
    waiting: int = 0


class ReceiverFact(msgspec.Struct, frozen=True):
    """Where webhook events go, and how many of the newest wait after several tries or were given up."""

    origin: str
    failing: int


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Of jobs and those who work on them."""

    expired_leases: int = 0
    oldest_expired_us: int = 0
    overdue: int = 0
    oldest_overdue_us: int = 0
    parked: int = 0
    oldest_parked_us: int = 0
    pauses: tuple[PauseFact, ...] = ()
    waiting: tuple[WaitingType, ...] = ()
    served_types: frozenset[str] = frozenset()
    """Types of which a job ran or ended lately."""
    workers: int = 0
    """Those that hold a job now."""
    alive: tuple[LiveWorker, ...] = ()
    """Those that were heard of lately, idle ones too."""
    ended_lately: int = 0
    failed_lately: int = 0
    old_failed: int = 0
    stuck_operations: int = 0


class OutboxFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Of webhook events."""

    dead: int = 0
    oldest_waiting_us: int = 0
    receivers: tuple[ReceiverFact, ...] = ()


class KeyFact(msgspec.Struct, frozen=True):
    prefix: str
    requester: str
    expires_in_us: int


class AccountFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Of keys and what seals secrets."""

    expiring: tuple[KeyFact, ...] = ()
    """Keys that are good now and expire."""
    keks_used: dict[str, int] = {}
    keks_here: frozenset[str] | None = None
    """None: nobody could read the keyring."""
    plaintext: bool = False


class DatabaseFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Of any database."""

    missing_migrations: tuple[str, ...] = ()
    too_new: str = ""
    too_old: str = ""
    """Why this release refuses it; `make_anew` says how to replace it."""
    make_anew: str = ""
    clock_skew_us: int = 0


class TableFact(msgspec.Struct, frozen=True):
    """A table of ours on Postgres."""

    name: str
    live: int = 0
    dead: int = 0
    autovacuum: bool = True


class LockHolder(msgspec.Struct, frozen=True):
    """A session of Postgres for which others wait."""

    pid: int
    table: str
    """The table that it has locked as a whole; empty: rows."""
    application: str
    state: str
    query: str
    """Its first words: no literals."""
    age_us: int | None
    """Of its transaction. None: this user may not see it."""

    def __str__(self) -> str:
        if not self.pid:
            return "a prepared transaction holds a lock"
        age = "" if self.age_us is None else f", transaction open for {self.age_us / 1e6:.0f} s"
        return f"backend {self.pid} ({self.application}, {self.state}{age}) holds {self.table or 'a row'}: {self.query}"


class LockFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Of locks that shut writers out."""

    holders: tuple[LockHolder, ...] = ()
    file_holder: str = ""
    """On SQLite: the process that holds the write lock, in words."""


class PostgresFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Of a Postgres server, as far as this user may see."""

    version: int = 180000
    through_pooler: bool = False
    standby: bool = False
    autovacuum: bool = True
    fsync: bool = True
    full_page_writes: bool = True
    role_defaults: tuple[str, ...] = ()
    """What ALTER ROLE or ALTER DATABASE says to the sessions of the application."""
    tables: tuple[TableFact, ...] = ()
    longest_transaction_us: int = 0
    longest_transaction: str = ""
    prepared_transactions: int = 0
    idle_slots: tuple[str, ...] = ()
    refused_tables: tuple[str, ...] = ()
    invalid_indexes: tuple[str, ...] = ()
    connections: int = 1
    max_connections: int = 100
    oldest_xid_age: int = 0
    wal_bytes: int | None = None
    max_wal_bytes: int = 1 << 30


class SqliteFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Of a SQLite file."""

    version: tuple[int, ...] = (3, 50, 0)
    journal_mode: str = "wal"
    pages: int = 0
    free_pages: int = 0
    page_bytes: int = 4096
    wal_bytes: int = 0
    file_system: str = ""
    writable: bool = True
    folder_writable: bool = True
    open_to_others: bool = False


class RedisFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Of the Redis that carries wake-ups, or that the jobs themselves are in."""

    unreachable: str = ""
    version: tuple[int, ...] = (7, 4)
    eviction_policy: str = "noeviction"
    memory_limit: int = 0
    memory_used: int = 0
    holds_jobs: bool = False
    append_only: bool = True


class DiskFact(msgspec.Struct, frozen=True):
    place: str
    total: int
    free: int


class MachineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Of this process and where it runs."""

    python: tuple[int, int] = (3, 13)
    missing_drivers: tuple[str, ...] = ()
    transcodes: bool = False
    ffmpeg_problem: str = ""
    disks: tuple[DiskFact, ...] = ()
    open_files: int = 65_536
    config_file: str = ""
    config_has_secrets: bool = False
    config_open_to_others: bool = False
    key_files_open_to_others: tuple[str, ...] = ()
    api_host: str = "127.0.0.1"
    allowed_hosts: bool = False
