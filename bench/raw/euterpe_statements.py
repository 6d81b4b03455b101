"""The same statements that a worker runs, by the bare driver: claim and settle in batches, nothing else around them."""

from __future__ import annotations

import time
from random import Random

from bench.peers.adapter import make_payload
from bench.raw.probe import Probe
from euterpe.compose import connect, sqlite_path
from euterpe.model.job import Claim
from euterpe.model.outcome import Success, settle
from euterpe.model.submission import Submission
from euterpe.ports import ClaimRequest
from euterpe.queue.options import encode_payload
from euterpe.store import claiming, settling
from euterpe.store.dialect import Family
from euterpe.store.postgres import PostgresEngine
from euterpe.store.program import Program, run_sync
from euterpe.store.sqlite import APSW, system_clock

BATCH = 500


async def fill(url: str, count: int) -> None:
    backend = connect(url)
    await backend.open()
    submissions = [Submission(type="noop", payload=encode_payload(make_payload(n))[0]) for n in range(count)]
    for first in range(0, count, 1000):
        await backend.store.submit_many(submissions[first : first + 1000])
    await backend.close()


REQUEST = ClaimRequest(worker_id="bare:00000000-0000-0000-0000-000000000000", limit=BATCH, types=("noop",))


def turn(taken: list[Claim], family: Family) -> Program[list[Claim]]:
    rng = Random(1)
    ended = [settle(claim.job, Success(b"null"), rng) for claim in taken]
    yield from settling.settle_or_confirm(ended, family)
    return (yield from claiming.claim(REQUEST, family))


async def on_postgres(url: str, count: int) -> float:
    await fill(url, count)
    engine = PostgresEngine(url)
    connection = await engine.connect()
    try:
        taken: list[Claim] = []
        start_s = time.monotonic()
        done = 0
        while True:
            async with connection.transaction():
                taken = await engine.pump(connection, turn(taken, "postgres"))
            if not taken:
                return done / (time.monotonic() - start_s)
            done += len(taken)
    finally:
        await connection.close()


async def on_sqlite(url: str, count: int) -> float:
    await fill(url, count)
    session = APSW.connect(sqlite_path(url))
    taken: list[Claim] = []
    start_s = time.monotonic()
    done = 0
    while True:
        session.begin()
        taken = run_sync(turn(taken, "sqlite"), lambda statement: session.execute(statement, system_clock))
        session.run("COMMIT")
        if not taken:
            return done / (time.monotonic() - start_s)
        done += len(taken)


PROBES = (
    Probe("asyncpg: our claim + settle, 500 a commit", "postgres", 50_000, on_postgres),
    Probe("apsw: our claim + settle, 500 a commit", "sqlite", 50_000, on_sqlite),
)
