"""Putting the house together: the only file that names concrete engines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from euterpe.model.errors import InvalidInput
from euterpe.model.submission import PAYLOAD_LIMIT
from euterpe.ports import Clock, Wakeups
from euterpe.store.engine import Engine
from euterpe.store.sql import SqlStore

EMBEDDED_FOLDER: Final = Path(".euterpe")
"""Where the embedded default keeps its database and keys."""
SCHEMES = "sqlite:///file.db, postgresql://..., libsql:///file.db"


@dataclass(slots=True)
class Backend:
    """A store and the wake-ups that go with it."""

    url: str
    store: SqlStore
    wakeups: Any

    async def open(self, *, migrate: bool = True) -> None:
        if migrate and self.url != "sqlite:///:memory:":
            await self.store.engine.migrate()
        await self.store.open()
        if hasattr(self.wakeups, "open"):
            await self.wakeups.open()
        self.store.wakeups = self.wakeups

    async def close(self) -> None:
        if hasattr(self.wakeups, "close"):
            await self.wakeups.close()
        await self.store.close()


def connect(url: str, *, clock: Clock | None = None, payload_limit: int = PAYLOAD_LIMIT) -> Backend:
    """The backend that a URL names. Nothing is opened yet."""
    scheme = urlsplit(url).scheme
    engine, wakeups = _engine(url, scheme, clock)
    return Backend(url, SqlStore(engine, payload_limit=payload_limit), wakeups)


def _engine(url: str, scheme: str, clock: Clock | None) -> tuple[Engine, Wakeups]:
    if scheme == "sqlite":
        from euterpe.store.sqlite import SqliteEngine
        from euterpe.transport.datawatch import DataWatch

        path = sqlite_path(url)
        return SqliteEngine(path, clock), DataWatch(path)
    if scheme in ("postgres", "postgresql"):
        from euterpe.store.postgres import PostgresEngine
        from euterpe.transport.notify import NotifyWakeups

        postgres = PostgresEngine(url, clock)
        return postgres, NotifyWakeups(postgres.connect, f"euterpe_{postgres.schema or 'public'}")
    if scheme == "libsql":
        from euterpe.store.libsql import LibsqlEngine
        from euterpe.transport.local import LocalWakeups

        return LibsqlEngine(url, clock), LocalWakeups()
    raise InvalidInput("url", f"{scheme or url!r} names no engine; use one of {SCHEMES}")


def sqlite_path(url: str) -> str:
    """sqlite:///jobs.db is beside the current folder, sqlite:////var/jobs.db is absolute."""
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc or not path.startswith("/") or path == "/":
        raise InvalidInput("url", f"{url!r} names no file; write sqlite:///jobs.db or sqlite:////absolute/jobs.db")
    return path[1:]


def make_room(url: str) -> None:
    """The embedded folder, if that is where the database goes. Any other missing folder is a mistake to report."""
    if urlsplit(url).scheme == "sqlite" and Path(sqlite_path(url)).parent == EMBEDDED_FOLDER:
        EMBEDDED_FOLDER.mkdir(mode=0o700, exist_ok=True)
