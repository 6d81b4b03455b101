"""Checks of a Postgres server."""

from __future__ import annotations

from typing import Final

from euterpe.model.diagnosis.facts import PostgresFacts
from euterpe.model.diagnosis.finding import Check, Complaint, error, warning
from euterpe.service.doctor.wording import HOUR_US, MINUTE_US, age_text, listed

OLDEST: Final = 140000
LONG_US: Final = 5 * MINUTE_US
MANY_DEAD: Final = 50_000
FULL: Final = 0.85
XIDS: Final = (1_000_000_000, 1_800_000_000)
WAL_TIMES: Final = 4
RISKY_DEFAULTS: Final = ("default_transaction_isolation", "default_transaction_read_only", "synchronous_commit")
HARMLESS: Final = frozenset(
    {"default_transaction_isolation=read committed", "default_transaction_read_only=off", "synchronous_commit=on"}
)


def version(facts: PostgresFacts) -> Complaint | None:
    if facts.version >= OLDEST:
        return None
    return error(
        f"Postgres {facts.version // 10000} is older than {OLDEST // 10000}, which this release needs",
        "upgrade Postgres",
    )


def standby(facts: PostgresFacts) -> Complaint | None:
    if not facts.standby:
        return None
    return error("this server is a standby and takes no writes", "name the primary in engine.url")


def pooler(facts: PostgresFacts) -> Complaint | None:
    if not facts.through_pooler:
        return None
    return warning(
        "a pooler in transaction mode stands before Postgres: two round trips more, and no NOTIFY",
        "give workers a direct connection or a pool in session mode; docs/pgbouncer.md says what it costs",
    )


def autovacuum(facts: PostgresFacts) -> Complaint | None:
    off = [table.name for table in facts.tables if not table.autovacuum]
    if facts.autovacuum and not off:
        return None
    where = "on the whole server" if not facts.autovacuum else f"on {listed(off)}"
    fix = (
        "autovacuum = on in postgresql.conf"
        if not facts.autovacuum
        else f"ALTER TABLE {off[0]} RESET (autovacuum_enabled)"
    )
    return error(f"autovacuum is off {where}: a queue's tables grow without end", fix)


def bloat(facts: PostgresFacts) -> Complaint | None:
    bloated = [t for t in facts.tables if t.dead > MANY_DEAD and t.dead > t.live]
    if not bloated:
        return None
    names = listed([f"{t.name} ({t.dead:,} dead rows, {t.live:,} live)" for t in bloated])
    return warning(
        f"more dead rows than live ones: {names}",
        f"see that no long transaction holds them, then VACUUM {bloated[0].name}",
    )


def long_transactions(facts: PostgresFacts) -> Complaint | None:
    if facts.longest_transaction_us < LONG_US:
        return None
    complain = error if facts.longest_transaction_us > HOUR_US else warning
    age = age_text(facts.longest_transaction_us)
    return complain(
        f"a transaction is open for {age} (backend {facts.longest_transaction}): it holds "
        "rows, and keeps vacuum from removing what the queue leaves behind",
        f"end it: SELECT pg_terminate_backend({facts.longest_transaction.split(' ')[0]})",
    )


def prepared_transactions(facts: PostgresFacts) -> Complaint | None:
    if not facts.prepared_transactions:
        return None
    return warning(
        f"{facts.prepared_transactions} prepared transactions wait for their second half",
        "SELECT * FROM pg_prepared_xacts, then COMMIT PREPARED or ROLLBACK PREPARED",
    )


def idle_slots(facts: PostgresFacts) -> Complaint | None:
    if not facts.idle_slots:
        return None
    return warning(
        f"nobody reads from the replication slots {listed(list(facts.idle_slots))}: the server keeps its log for them",
        f"start the reader again, or SELECT pg_drop_replication_slot('{facts.idle_slots[0]}')",
    )


def durability(facts: PostgresFacts) -> Complaint | None:
    off = [name for name, on in (("fsync", facts.fsync), ("full_page_writes", facts.full_page_writes)) if not on]
    if not off:
        return None
    return error(
        f"{listed(off)} is off: a crash of the machine loses or spoils jobs", f"{off[0]} = on in postgresql.conf"
    )


def defaults(facts: PostgresFacts) -> Complaint | None:
    risky = [
        setting
        for setting in facts.role_defaults
        if setting.partition("=")[0] in RISKY_DEFAULTS and setting.lower() not in HARMLESS
    ]
    if not risky:
        return None
    return warning(
        f"ALTER ROLE or ALTER DATABASE sets {listed(risky)}: our sessions say otherwise, your own transactions do not",
        f"where you submit inside your own transactions, RESET {risky[0].partition('=')[0]}",
    )


def rights(facts: PostgresFacts) -> Complaint | None:
    if not facts.refused_tables:
        return None
    return error(
        f"this user may not read and write {listed(list(facts.refused_tables))}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {facts.refused_tables[0]} TO the user of engine.url",
    )


def invalid_indexes(facts: PostgresFacts) -> Complaint | None:
    if not facts.invalid_indexes:
        return None
    return error(
        f"indexes that cannot be used: {listed(list(facts.invalid_indexes))}",
        f"REINDEX INDEX {facts.invalid_indexes[0]}",
    )


def connections(facts: PostgresFacts) -> Complaint | None:
    if facts.connections < FULL * facts.max_connections:
        return None
    return warning(
        f"{facts.connections} of {facts.max_connections} connections are taken",
        "raise max_connections, lower pool_size in engine.url, or put a pooler in session mode before it",
    )


def wraparound(facts: PostgresFacts) -> Complaint | None:
    if facts.oldest_xid_age < XIDS[0]:
        return None
    complain = error if facts.oldest_xid_age >= XIDS[1] else warning
    return complain(
        f"the oldest transaction id is {facts.oldest_xid_age:,} old; at 2,000,000,000 Postgres takes no more writes",
        "VACUUM (FREEZE) the oldest tables, and see what holds vacuum back",
    )


def wal_size(facts: PostgresFacts) -> Complaint | None:
    if facts.wal_bytes is None or facts.wal_bytes < WAL_TIMES * facts.max_wal_bytes:
        return None
    return warning(
        f"the write-ahead log is {facts.wal_bytes / 1e9:.1f} GB, {WAL_TIMES} times max_wal_size or more",
        "look for idle replication slots and for a failing archive_command (pg_stat_archiver)",
    )


CHECKS: Final[tuple[Check[PostgresFacts], ...]] = (
    Check("postgres_version", "Postgres is new enough", version),
    Check("postgres_primary", "the server takes writes", standby),
    Check("pgbouncer_mode", "no pooler in transaction mode", pooler),
    Check("autovacuum", "autovacuum is on", autovacuum),
    Check("bloat", "tables are vacuumed", bloat),
    Check("long_transactions", "no transaction is open for long", long_transactions),
    Check("prepared_transactions", "no prepared transaction is left", prepared_transactions),
    Check("replication_slots", "every replication slot has a reader", idle_slots),
    Check("durability", "what is committed is on the disk", durability),
    Check("database_defaults", "defaults for your own transactions are the usual ones", defaults),
    Check("schema_rights", "this user may use every table", rights),
    Check("invalid_indexes", "every index can be used", invalid_indexes),
    Check("connections", "connections are left", connections),
    Check("xid_wraparound", "transaction ids are young", wraparound),
    Check("wal_size", "the write-ahead log is of usual size", wal_size),
)
