"""Makes a store and its wake-ups from a URL: the only file that names concrete engines."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote, unquote, urlsplit

from euterpe.model.errors import InvalidInput
from euterpe.model.extras import needing
from euterpe.model.submitting.submission import PAYLOAD_LIMIT
from euterpe.ports import Clock, Store, Wakeups
from euterpe.redis.settings import DEFAULT_TUNING, RedisTuning
from euterpe.runtime.shutdown import CLOSE_S, ShutdownDeadline

if TYPE_CHECKING:  # Not at run time: an engine is loaded when a URL names it, and a lease keeper needs no settings.
    from euterpe.config import Config
    from euterpe.stores.sql.engine import Engine

EMBEDDED_FOLDER: Final = Path(".euterpe")
"""Where the embedded default keeps its database and keys."""
SCHEMES = "sqlite:///file.db, postgresql://..., libsql:///file.db, redis://..., http(s)://control-plane"
MEMORY_URL: Final = "sqlite:///:memory:"


class ConnectedWakeups(Wakeups, Protocol):
    """Wake-ups that may hold a connection or a task of their own."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class Backend:
    """A store and the wake-ups that go with it."""

    url: str = field(repr=False)
    """How another process of this machine reaches the same database."""
    store: Store
    wakeups: ConnectedWakeups
    channel: str | None = None
    """Where Postgres tells of jobs that a caller's own transaction brings."""

    async def open(self, *, migrate: bool = True) -> None:
        if migrate:
            await self.store.migrate()
        await self.store.open()
        try:
            await self.wakeups.open()
        except BaseException:
            await self.store.close()
            raise
        self.store.wakeups = self.wakeups

    async def close(self, shutdown: ShutdownDeadline | None = None) -> None:
        try:
            await _in_time(self.wakeups.close(), shutdown)
        finally:
            await _in_time(self.store.close(), shutdown)


async def _in_time(closing: Coroutine[Any, Any, None], shutdown: ShutdownDeadline | None) -> None:
    """A process that was told to stop does not wait for a server that no longer answers."""
    if shutdown is None or not shutdown.is_set:
        await closing
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(shutdown.left_s(CLOSE_S)):
            await closing


def connect(
    url: str,
    *,
    clock: Clock | None = None,
    payload_limit: int = PAYLOAD_LIMIT,
    wakeups_url: str | None = None,
    redis: RedisTuning = DEFAULT_TUNING,
    token: str | None = None,
) -> Backend:
    """The backend that a URL names. Nothing is opened yet.

    `wakeups_url` names a Redis whose streams carry the wake-ups, `redis` how to talk to it, or to the one of the
    jobs; `token` the key for a control plane."""
    folder: str | None = None
    if is_control_plane(url):
        return _control_plane(url, token, payload_limit, wakeups_url)
    if token is not None:
        raise InvalidInput("token", "is the key for a control plane; a database's URL has its own password")
    if is_redis(url):
        return _redis_lists(url, redis, clock, payload_limit, wakeups_url)
    from euterpe.stores.sql.store import SqlStore

    if url == MEMORY_URL:
        # A memory database belongs to one connection; ours has a writer, readers and the lease keeper's process.
        folder = tempfile.mkdtemp(prefix="euterpe-")
        url = f"sqlite:///{folder}/jobs.db"
    url = _absolute(url)
    engine, wakeups = _engine(url, urlsplit(url).scheme, clock)
    if folder is not None:
        weakref.finalize(engine, shutil.rmtree, folder, ignore_errors=True)
    channel = getattr(wakeups, "channel", None)
    if wakeups_url is not None:
        wakeups = _streams(wakeups_url, redis, engine, wakeups if channel is not None else None)
    return Backend(url, SqlStore(engine, payload_limit=payload_limit), wakeups, channel)


def is_control_plane(url: str) -> bool:
    """Whether the URL names a control plane over HTTP and not a database."""
    return urlsplit(url).scheme in ("http", "https")


def _engine(url: str, scheme: str, clock: Clock | None) -> tuple[Engine, ConnectedWakeups]:
    if scheme == "sqlite":
        from euterpe.stores.sql.sqlite.engine import SqliteEngine
        from euterpe.wakeups.sqlite_file import DataWatch

        path = sqlite_path(url)
        return SqliteEngine(path, clock), DataWatch(path)
    if scheme in ("postgres", "postgresql"):
        if not url.startswith(f"{scheme}://"):
            raise InvalidInput("url", "write postgresql://user:password@host/database")
        with needing("a Postgres queue", "postgres"):
            from euterpe.stores.sql.postgres.engine import PostgresEngine
        from euterpe.wakeups.postgres_notify import NotifyWakeups

        postgres = PostgresEngine(url, clock)
        channel = f"euterpe_{postgres.schema or 'public'}"
        return postgres, NotifyWakeups(postgres.connect_to_notify, channel, postgres.can_listen)
    if scheme == "libsql":
        with needing("a libsql queue", "libsql"):
            from euterpe.stores.sql.sqlite.libsql import LibsqlEngine
        from euterpe.wakeups.local import LocalWakeups
        from euterpe.wakeups.sqlite_file import DataWatch

        libsql = LibsqlEngine(url, clock)
        return libsql, LocalWakeups() if urlsplit(url).netloc else DataWatch(libsql.path)
    known, _, driver = scheme.partition("+")
    if driver and known in ("postgres", "postgresql", "sqlite"):
        raise InvalidInput("url", f"write {known}:// without +{driver}: Euterpe chooses the driver itself")
    raise InvalidInput("url", f"{scheme or url!r} names no engine; use one of {SCHEMES}")


def _control_plane(url: str, token: str | None, payload_limit: int, wakeups_url: str | None) -> Backend:
    with needing("a queue over HTTP", "http"):
        from euterpe.stores.remote.store import HttpStore, with_token
    from euterpe.wakeups.local import LocalWakeups

    if wakeups_url is not None:
        raise InvalidInput("transport", "is the control plane's own business; leave it out for an http(s):// queue")
    url = with_token(url, token)
    return Backend(url, HttpStore(url, payload_limit=payload_limit), LocalWakeups())


def is_redis(url: str) -> bool:
    """Whether the URL names the Redis whose lists hold the jobs."""
    return urlsplit(url).scheme in ("redis", "rediss")


def _redis_lists(
    url: str, tuning: RedisTuning, clock: Clock | None, payload_limit: int, wakeups_url: str | None
) -> Backend:
    with needing("a queue in Redis lists", "redis"):
        from euterpe.stores.redis_lists.store import RedisListStore
    from euterpe.wakeups.local import LocalWakeups

    if wakeups_url is not None:
        raise InvalidInput("transport", "is for a database; a queue in Redis lists tells of its jobs itself")
    store = RedisListStore(url, payload_limit=payload_limit, tuning=tuning, clock=clock)
    return Backend(url, store, LocalWakeups())


def _streams(
    redis_url: str, tuning: RedisTuning, engine: Engine, secondary: ConnectedWakeups | None
) -> ConnectedWakeups:
    from euterpe.stores.sql.reads.job_states import WaitingJobs

    with needing("a transport over Redis", "redis"):
        from euterpe.wakeups.redis_streams import StreamWakeups

    if urlsplit(redis_url).scheme not in ("redis", "rediss", "unix"):
        raise InvalidInput(
            "transport", f"must be the URL of a Redis (redis://...), not {redis_url.partition(':')[0]!r}"
        )
    return StreamWakeups(redis_url, WaitingJobs(engine), secondary=secondary, tuning=tuning)


def _absolute(url: str) -> str:
    """The same file for every connection, thread and process of this queue, wherever the program moves meanwhile."""
    parts = urlsplit(url)
    if parts.scheme not in ("sqlite", "libsql") or parts.netloc or not parts.path.startswith("/"):
        return url
    path = unquote(parts.path)[1:]
    if not path or Path(path).is_absolute():
        return url
    # By hand: urlunsplit would take a path of two slashes for an authority.
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}:////{quote(str(Path(path).absolute()).lstrip('/'))}{query}"


def sqlite_path(url: str) -> str:
    """sqlite:///jobs.db is beside the current folder, sqlite:////var/jobs.db is absolute."""
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc or not path.startswith("/") or path == "/":
        raise InvalidInput("url", f"{url!r} names no file; write sqlite:///jobs.db or sqlite:////absolute/jobs.db")
    if parts.query:
        raise InvalidInput("url", f"a SQLite URL takes no options: remove ?{parts.query}")
    return path[1:]


def make_room(url: str) -> None:
    """The embedded folder, if that is where the database goes. Any other missing folder is a mistake to report."""
    if urlsplit(url).scheme == "sqlite" and Path(sqlite_path(url)).parent == EMBEDDED_FOLDER:
        EMBEDDED_FOLDER.mkdir(mode=0o700, exist_ok=True)
        status = EMBEDDED_FOLDER.lstat()
        # Another user who made the folder, or the place that a link leads to, could read and replace what is in it.
        if stat.S_ISLNK(status.st_mode) or (hasattr(os, "getuid") and status.st_uid not in (os.getuid(), 0)):
            raise InvalidInput(
                "engine.url",
                f"{EMBEDDED_FOLDER}/ here is a link or belongs to another user; work in a folder of your own, or name "
                "a database with ENGINE_URL",
            )


def wakeups_url_of(config: Config) -> str | None:
    """The URL of the Redis that carries wake-ups, as `transport` and `redis` of the configuration have it."""
    return _redis_of(config) if config.transport.kind == "streams" else None


def _redis_of(config: Config, scheme: str = "redis", database: str = "") -> str:
    """The Redis that the section `redis` names."""
    redis = config.redis
    user = quote(redis.username, safe="")
    if redis.password:
        user += f":{quote(redis.password, safe='')}"
    return f"{scheme}://{user}{'@' if user else ''}{redis.addr}/{database or redis.db}"


def _at_configured_redis(config: Config, url: str) -> str:
    """`redis://` without a host is the Redis that the section `redis` names. What else the URL says stays: TLS, a
    database, options."""
    parts = urlsplit(url)
    if not is_redis(url) or parts.netloc:
        return url
    place = _redis_of(config, parts.scheme, parts.path.strip("/"))
    return f"{place}?{parts.query}" if parts.query else place


def engine_url_of(config: Config) -> str:
    """Where the jobs live, with all that the configuration says of it."""
    return with_list_settings(config, config.engine.url)


def with_list_settings(config: Config, url: str) -> str:
    """The URL of Redis lists with the address of the section `redis`, if it has none, and the names and times of the
    section `worker`; any other URL as it is."""
    if not is_redis(url):
        return url
    from euterpe.stores.redis_lists.settings import ListSettings, with_settings

    worker = config.worker
    return with_settings(
        _at_configured_redis(config, url),
        ListSettings(
            priorities=worker.priorities,
            lists=dict(worker.queues),
            processing_list_pattern=worker.processing_list_pattern,
            heartbeat_key_pattern=worker.heartbeat_key_pattern,
            completed_list=worker.completed_list,
            dead_letter_list=worker.dead_letter_list,
            brpoplpush_timeout_us=worker.brpoplpush_timeout_us,
            max_retries=worker.max_retries,
            backoff_base_us=worker.backoff.base_us,
            backoff_max_us=worker.backoff.max_us,
        ),
    )


@dataclass(frozen=True, slots=True)
class RedisLists:
    """What a URL of Redis lists says, for those who do not use the store alone."""

    redis_url: str = field(repr=False)
    """As the Redis client takes it, without our options."""
    prefix: str
    by_priority: Mapping[str, str]
    """The list of each priority of the default queue."""
    max_retries: int
    backoff_base_us: int
    backoff_max_us: int


def redis_lists_of(url: str) -> RedisLists | None:
    """None for any other engine."""
    if not is_redis(url):
        return None
    from euterpe.stores.redis_lists.settings import settings_from

    redis_url, settings = settings_from(url)
    return RedisLists(
        redis_url,
        settings.prefix,
        settings.lists,
        settings.max_retries,
        settings.backoff_base_us,
        settings.backoff_max_us,
    )


def redis_tuning_of(config: Config) -> RedisTuning:
    """How to talk to that Redis."""
    redis = config.redis
    return RedisTuning(
        dial_timeout_s=redis.dial_timeout_us / 1e6,
        read_timeout_s=redis.read_timeout_us / 1e6,
        write_timeout_s=redis.write_timeout_us / 1e6,
        pool_size=redis.pool_size_multiplier * (os.cpu_count() or 1),
        min_idle=redis.min_idle_conns,
        max_retries=redis.max_retries,
    )
