"""One SQLite library for one file in one process.

File locks belong to the process, so a second copy of SQLite in it (Python's sqlite3 beside the one that apsw brings)
does not see the locks of the first: both write at once, and what one closes takes the other's locks away. An
application that joins the queue's transactions has its own sqlite3 connections on the queue's file. The queue then
uses that library too: from its opening, or, told by Python's audit event, just before the connection comes to be.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from weakref import WeakSet

import apsw

from euterpe.stores.sql.sqlite.writer import GroupCommitEngine

log = logging.getLogger("euterpe.store")

_watched: WeakSet[GroupCommitEngine] = WeakSet()
_seen: set[str] = set()
_opened_by_us: set[str] = set()
_lock = threading.Lock()
_hooked = False


def watch(engine: GroupCommitEngine) -> None:
    """Have this engine go over to Python's library when the application opens its file with sqlite3."""
    global _hooked
    with _lock:
        _watched.add(engine)
        if not _hooked:
            sys.addaudithook(_on_audit_event)
            _hooked = True


def is_watched(engine: GroupCommitEngine) -> bool:
    return engine in _watched


def is_open_by_python(path: str) -> bool:
    """Whether this process has, or had, the file open by sqlite3."""
    if path == ":memory:" or "sqlite3" not in sys.modules:
        return False
    file = os.path.realpath(path)
    if file in _seen:
        return True
    return not _is_open_by_apsw(file) and _is_open(file)


def opens_by_apsw(path: str) -> None:
    """Told before our own connections come to be. From then on the audit hook knows of every sqlite3 connection."""
    if path != ":memory:":
        _opened_by_us.add(os.path.realpath(path))


def _is_open_by_apsw(file: str) -> bool:
    if file in _opened_by_us:
        return True
    for connection in apsw.connections():
        try:
            if os.path.realpath(connection.filename) == file:
                return True
        except (apsw.ThreadingViolationError, apsw.ConnectionClosedError):
            continue  # It works in another thread just now, or ends; one on this file would be the application's own.
    return False


def _is_open(file: str) -> bool:
    """Asks the system: a connection older than our audit hook is known to nobody else."""
    try:
        wanted = Path(file).stat()
        descriptors = os.listdir("/dev/fd")  # noqa: PTH208  # names only, and the folder changes while it is read
    except OSError:
        return False
    for descriptor in descriptors:
        try:
            status = os.fstat(int(descriptor))
        except (OSError, ValueError):
            continue
        if (status.st_dev, status.st_ino) == (wanted.st_dev, wanted.st_ino):
            return True
    return False


def _on_audit_event(event: str, args: tuple[Any, ...]) -> None:
    if event != "sqlite3.connect":
        return
    file = _file_of(args[0])
    if file is None:
        return
    with _lock:
        _seen.add(file)
        engines = [engine for engine in _watched if os.path.realpath(engine.path) == file]
    for engine in engines:
        switch_library(engine)


def switch_library(engine: GroupCommitEngine) -> None:
    """Let the engine close the file and go on with Python's library."""
    from euterpe.stores.sql.sqlite.python_sqlite import PYTHON

    if engine.library is not PYTHON:
        log.info("sqlite3 opened the queue's file in this process too: the queue uses that library from now on")
        engine.change_library(PYTHON)


def _file_of(database: Any) -> str | None:
    try:
        name = os.fsdecode(database)
    except TypeError:
        return None
    if name.startswith("file:"):
        name = unquote(urlsplit(name).path)
    return os.path.realpath(name) if name and name != ":memory:" else None
