"""Checks of a SQLite file."""

from __future__ import annotations

from typing import Final

from euterpe.model.diagnosis.facts import SqliteFacts
from euterpe.model.diagnosis.finding import Check, Complaint, error, warning

OLDEST: Final = (3, 38, 0)
LARGE_WAL: Final = 256_000_000
FREE_SHARE: Final = 0.5
FREE_BYTES: Final = 100_000_000
NETWORK: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs"})


def version(facts: SqliteFacts) -> Complaint | None:
    if facts.version >= OLDEST:
        return None
    return error(
        f"SQLite {'.'.join(map(str, facts.version))} is too old", "pip install -U apsw, which brings a new one"
    )


def journal_mode(facts: SqliteFacts) -> Complaint | None:
    if facts.journal_mode == "wal":
        return None
    return error(
        f"the journal mode is {facts.journal_mode}, so readers and the writer block each other",
        "stop all processes, then `PRAGMA journal_mode = wal`",
    )


def wal_size(facts: SqliteFacts) -> Complaint | None:
    if facts.wal_bytes < LARGE_WAL:
        return None
    return warning(
        f"the write-ahead log is {facts.wal_bytes / 1e6:,.0f} MB: some reader keeps it from being written back",
        "find the program that holds a read open on the file (lsof), and end its transaction",
    )


def free_space(facts: SqliteFacts) -> Complaint | None:
    free = facts.free_pages * facts.page_bytes
    if free < FREE_BYTES or facts.free_pages < FREE_SHARE * facts.pages:
        return None
    return warning(
        f"{free / 1e6:,.0f} MB of the file are free and not given back to the disk",
        "with all processes stopped: VACUUM",
    )


def network(facts: SqliteFacts) -> Complaint | None:
    if facts.file_system not in NETWORK:
        return None
    return error(
        f"the file lies on {facts.file_system}, whose locks SQLite cannot trust: it may be spoilt",
        "move it to a local disk, or use Postgres",
    )


def rights(facts: SqliteFacts) -> Complaint | None:
    if facts.writable and facts.folder_writable:
        return None
    what = "its folder" if facts.writable else "the file"
    return error(f"this user may not write {what}; SQLite needs both, for its log", "chown or chmod it for this user")


def open_to_others(facts: SqliteFacts) -> Complaint | None:
    if not facts.open_to_others:
        return None
    return warning("every user of this machine may read the file, with all payloads", "chmod 600 it")


CHECKS: Final[tuple[Check[SqliteFacts], ...]] = (
    Check("sqlite_version", "SQLite is new enough", version),
    Check("journal_mode", "the journal is a write-ahead log", journal_mode),
    Check("sqlite_wal_size", "the write-ahead log is written back", wal_size),
    Check("sqlite_free_space", "the file has little free space inside", free_space),
    Check("network_file_system", "the file lies on a local disk", network),
    Check("file_rights", "this user may write file and folder", rights),
    Check("file_privacy", "the file is for its user alone", open_to_others),
)
