"""The same statements that a worker runs, by the bare driver: claim and settle in batches, nothing else around them."""

from __future__ import annotations

import time

from bench.peers.adapter import make_payload
from bench.raw.probe import Probe
from euterpe.backends.engines import connect, sqlite_path
from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.job import Claim
from euterpe.model.submitting.submission import Submission
from euterpe.queue.definition.options import encode_payload
from euterpe.stores.sql.exchange.claimed_completions import complete_simple
from euterpe.stores.sql.exchange.plain import plain_completions
from euterpe.stores.sql.exchange.simple_jobs import simple_completions
from euterpe.stores.sql.exchange.turn import turn
from euterpe.stores.sql.jobs.claim import claim
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.program import Program, run_sync
from euterpe.stores.sql.sqlite.engine import APSW, system_clock

BATCH = 1000


async def fill(url: str, count: int) -> None:
    backend = connect(url)
    await backend.open()
    submissions = [Submission(type="noop", payload=encode_payload(make_payload(n))[0]) for n in range(count)]
    for first in range(0, count, 1000):
        await backend.store.submit_many(submissions[first : first + 1000])
    await backend.close()


REQUEST = ClaimRequest(worker_id="bare:00000000-0000-0000-0000-000000000000", limit=BATCH, types=("noop",))


def completed(taken: list[Claim]) -> list[Report]:
    return [Report(one, Success(b"null")) for one in taken]


async def on_postgres(url: str, count: int) -> float:
    await fill(url, count)
    engine = PostgresEngine(url)
    connection = await engine.connect()
    try:
        taken: list[Claim] = []
        over: list[int] = []
        start_s = time.monotonic()
        done = 0
        while True:
            plain = plain_completions(completed(taken))
            assert plain is not None, "nothing follows from the end of these jobs"
            last = await engine.pump(connection, turn(plain, REQUEST, over))
            taken, over = last.claims, [last.claim] if last.claim is not None else []
            if not taken:
                return done / (time.monotonic() - start_s)
            done += len(taken)
    finally:
        await connection.close()


def complete_and_claim(taken: list[Claim]) -> Program[list[Claim]]:
    completions = simple_completions(completed(taken))
    assert completions is not None, "nothing follows from the end of these jobs"
    assert (yield from complete_simple(completions))
    return (yield from claim(REQUEST))


async def on_sqlite(url: str, count: int) -> float:
    await fill(url, count)
    session = APSW.connect(sqlite_path(url))
    taken: list[Claim] = []
    start_s = time.monotonic()
    done = 0
    while True:
        session.begin(30.0)
        taken = run_sync(complete_and_claim(taken), lambda statement: session.execute(statement, system_clock))
        session.run("COMMIT")
        if not taken:
            return done / (time.monotonic() - start_s)
        done += len(taken)


PROBES = (
    Probe("asyncpg: our claim + settle, 1000 a commit", "postgres", 50_000, on_postgres),
    Probe("apsw: our claim + settle, 1000 a commit", "sqlite", 50_000, on_sqlite),
)
