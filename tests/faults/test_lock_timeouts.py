"""A lock that holds up one statement of an exchange drops nothing that another one of it has committed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.errors import StoreUnavailable
from euterpe.model.job import Claim
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.store import SqlStore
from tests.faults.stores import opened

FIRST, SECOND = 30, 20
"""Jobs of two bulk submits. Somebody holds the second run, so a claim of all has to ask again."""
HOLD = "SELECT 1 FROM euterpe_line ORDER BY seq DESC LIMIT 1 FOR UPDATE"
Write = Callable[..., Awaitable[Any]]


class LockedOut:
    """While the nth write of the store is under way, somebody has the table of jobs to themselves."""

    def __init__(self, store: SqlStore, connection: asyncpg.Connection[Any], at: int, monkeypatch: pytest.MonkeyPatch):
        self._connection = connection
        self._writes, self._at = 0, at
        for name in ("write", "write_one"):
            monkeypatch.setattr(store.engine, name, self._counting(getattr(store.engine, name)))

    def _counting(self, write: Write) -> Write:
        async def counted(*said: Any, **more: Any) -> Any:
            self._writes += 1
            if self._writes != self._at:
                return await write(*said, **more)
            async with self._connection.transaction():
                await self._connection.execute("LOCK TABLE inbox_jobs IN ACCESS EXCLUSIVE MODE")
                writing = asyncio.ensure_future(write(*said, **more))
                await asyncio.wait({writing})
            return await writing

        return counted


@pytest.mark.parametrize("at", [1, 2, 3])
async def test_claims_that_are_committed_are_handed_out_whatever_times_out_later(
    postgres_database: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("euterpe.stores.sql.postgres.session.LOCK_WAIT_S", 0.2)
    async with opened(postgres_database) as store:
        await store.submit_many([Submission(type="t")] * 5)
        before = await store.claim(ClaimRequest(worker_id="w", limit=5))
        for jobs in (FIRST, SECOND):
            await store.submit_many([Submission(type="t")] * jobs)
        holder, locker = [await PostgresEngine(postgres_database).connect() for _ in range(2)]
        async with holder.transaction():
            await holder.execute(HOLD)
            LockedOut(store, locker, at, monkeypatch)
            claims: list[Claim] = []
            try:
                request = ClaimRequest(worker_id="w", limit=FIRST + SECOND)
                _, claims = await store.exchange([Report(claim, Success(b"1")) for claim in before], request)
            except StoreUnavailable:
                return  # The worker is told, and asks for what it may have claimed.
        known = {(claim.job.id, claim.job.claim_version) for claim in claims}
        assert await store.sweeps.release_unbegun("w", known) == 0, "a claimed job is in nobody's hands"
        for connection in (holder, locker):
            await connection.close()
