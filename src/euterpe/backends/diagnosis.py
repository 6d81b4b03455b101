"""Looking over the database behind a store."""

from __future__ import annotations

import time

from euterpe.backends.database import database_of
from euterpe.backends.engines import engine_url_of, redis_lists_of, wakeups_url_of
from euterpe.config import Config
from euterpe.model.diagnosis.facts import (
    DatabaseFacts,
    JobFacts,
    KeyFact,
    LockFacts,
    OutboxFacts,
    PostgresFacts,
    SqliteFacts,
)
from euterpe.model.errors import DatabaseLocked
from euterpe.ports import Store
from euterpe.stores.sql.diagnosis.accounts import expiring_keys, keks_used
from euterpe.stores.sql.diagnosis.jobs import job_facts, outbox_facts
from euterpe.stores.sql.diagnosis.servers import database_facts, sqlite_facts


def redis_in_use(config: Config) -> tuple[str, bool] | None:
    """(address of the Redis, whether the jobs themselves are in it); None: none is used."""
    lists = redis_lists_of(engine_url_of(config))
    if lists is not None:
        return lists.redis_url, True
    wakeups_url = wakeups_url_of(config)
    return None if wakeups_url is None else (wakeups_url, False)


class DatabaseProbe:
    """Questions to a database. Nothing is changed by them."""

    def __init__(self, store: Store) -> None:
        """Raises Unsupported where there is no SQL database within reach."""
        self._store = store
        self._engine = database_of(store)

    async def database(self) -> DatabaseFacts:
        """The time that the answer took is not counted as a difference of clocks."""
        before = time.time_ns() // 1000
        asked_at_us = await self._store.now_us()
        after = time.time_ns() // 1000
        here_us = min(max(asked_at_us, before), after)
        return await database_facts(self._engine, here_us, asked_at_us)

    async def locks(self) -> LockFacts:
        if self._engine.family != "postgres":
            try:
                await self._engine.check_writable()
            except DatabaseLocked as locked:
                return LockFacts(file_holder=locked.holder)
            return LockFacts()
        from euterpe.stores.sql.postgres.lock_holders import lock_holders  # Its driver is there, or nothing is open.

        schema = self._engine.schema
        return LockFacts(holders=tuple(await self._engine.read(lambda: lock_holders(schema, everyone=True))))

    async def jobs(self) -> JobFacts:
        return await self._engine.read(job_facts)

    async def outbox(self) -> OutboxFacts:
        return await self._engine.read(outbox_facts)

    async def expiring_keys(self) -> tuple[KeyFact, ...]:
        return await self._engine.read(expiring_keys)

    async def keks_used(self) -> dict[str, int]:
        return await self._engine.read(keks_used)

    async def postgres(self) -> PostgresFacts | None:
        if self._engine.family != "postgres":
            return None
        from euterpe.stores.sql.diagnosis.postgres import postgres_facts  # Its driver is there, or nothing is open.

        return await postgres_facts(self._engine)

    async def sqlite(self) -> SqliteFacts | None:
        """What the file says of itself; where it lies, the machine knows."""
        return None if self._engine.family == "postgres" else await sqlite_facts(self._engine)
