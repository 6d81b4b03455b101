"""A Postgres schema for a measurement, without its driver where nobody measures on Postgres."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from euterpe.model.extras import needing


@asynccontextmanager
async def schema_for_a_while(url: str) -> AsyncIterator[None]:
    """The schema that the URL names, with our tables, dropped at the end."""
    with needing("a Postgres queue", "postgres"):
        from euterpe.stores.sql.postgres import sandbox
    async with sandbox.schema_for_a_while(url):
        yield


async def commits_per_s(url: str, seconds: float) -> tuple[float, bool]:
    """How often the bare server makes a small write durable; and whether it waits for its disk."""
    from euterpe.stores.sql.postgres import sandbox

    return await sandbox.commits_per_s(url, seconds)
