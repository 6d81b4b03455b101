"""A small world in which any two programs meet on the same jobs, made once and restored before every order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import asyncpg

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Failed, Success
from euterpe.model.dependency import Dependency
from euterpe.model.events.outbox import Delivery
from euterpe.model.failures.backoff import Backoff
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.failures.retry import RetryPolicy
from euterpe.model.job import Claim
from euterpe.model.state import State
from euterpe.model.submitting.batch import Unit, drafts_of
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.store import SqlStore
from tests.conformance.clock import FrozenClock

NUMBERED: Final = frozenset({"inbox_jobs", "job_outbox_events", "euterpe_line", "euterpe_running"})
TABLES: Final = (
    "inbox_jobs", "euterpe_ended_attempts", "job_dependencies", "idempotency_keys", "job_outbox_events",
    "euterpe_outbox_deliveries", "euterpe_tombstones", "euterpe_unwatched_dependencies", "audit", "euterpe_line",
    "euterpe_running", "euterpe_keys", "euterpe_key_line",
)  # fmt: skip
HOOK: Final = "https://receiver.example/hook"
STEADY: Final = RetryPolicy(Backoff(jitter=0.0))
AUDIT: Final = """
CREATE TABLE audit (n bigserial, job_id uuid, old_state text, new_state text, old_version bigint, new_version bigint);
CREATE FUNCTION audit_move() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO audit (job_id, new_state, new_version) VALUES (NEW.id, NEW.state, NEW.claim_version);
    ELSIF OLD.state <> NEW.state OR OLD.claim_version <> NEW.claim_version THEN
        INSERT INTO audit (job_id, old_state, new_state, old_version, new_version)
        VALUES (NEW.id, OLD.state, NEW.state, OLD.claim_version, NEW.claim_version);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER audit_move AFTER INSERT OR UPDATE ON inbox_jobs FOR EACH ROW EXECUTE FUNCTION audit_move();
"""


@dataclass
class World:
    """Claims by what they are for, and ids of what does not run."""

    claims: dict[str, Claim]
    ids: dict[str, str]
    event_id: str
    restore: str

    def claim(self, *names: str) -> list[Claim]:
        return [self.claims[name] for name in names]


async def make_world(engine: PostgresEngine, clock: FrozenClock, connection: asyncpg.Connection[Any]) -> World:
    store = SqlStore(engine)
    await store.open()
    ids: dict[str, str] = {}
    claims: dict[str, Claim] = {}

    async def add(name: str, **said: Any) -> str:
        submitted = await store.submit(Submission(type=name, retry=STEADY, **said))
        ids[name] = submitted.job_id
        return submitted.job_id

    async def run(name: str, **said: Any) -> Claim:
        await add(name, **said)
        (claims[name],) = await store.claim(ClaimRequest(worker_id="w", limit=1, types=(name,)))
        return claims[name]

    old = await run("old", idempotency_key="old", callback_url=HOOK, callback_events="terminal")
    await store.settle([Report(old, Success(b"1"))])
    (event,) = await store.outbox.claim("w", 10)
    delivered = Delivery(
        event_id=event.id, claim_version=event.claim_version, state=State.COMPLETED, outcome="delivered"
    )
    await store.outbox.settle([delivered])
    clock.advance(days=40)
    await run("lost", callback_url=HOOK)
    await run("ageing", lifetime_us=90_000_000, callback_url=HOOK)
    await add("aged", lifetime_us=90_000_000)
    await add("due", delay_us=60_000_000)
    retrying = await run("retrying", callback_url=HOOK)
    await store.settle([Report(retrying, Failed(Failure(Category.TEMPORARY, "once more")))])
    failed = await run("failed", callback_url=HOOK)
    await store.settle([Report(failed, Failed(Failure(Category.PERMANENT, "broken")))])
    clock.advance(seconds=100)
    await run("parent", callback_url=HOOK, stages=("claimed", "halfway"))
    await run("plain")
    await run("keyed", concurrency_key="k", concurrency_limit=1)
    await add("parked", concurrency_key="k", concurrency_limit=1)
    await add("ready")
    await add("told", callback_url=HOOK)
    await run("spawner")
    await add("after", depends_on=(ids["parent"], ids["lost"]), callback_url=HOOK)
    await add("any", depends_on=(ids["parent"], ids["lost"]), dependency=Dependency.AFTER_ANY)
    await add("further", depends_on=(ids["after"],))
    await add("fan_in", depends_on=(ids["spawner"],), dependency=Dependency.FAN_IN)
    await store.claim(ClaimRequest(worker_id="w", limit=1, types=("parked",)))
    async with connection.transaction():
        unit = Unit(drafts_of([Submission(type="joined", depends_on=(ids["parent"], ids["plain"]))]))
        (joined,) = await store.submit_unit_on(unit, connection)
    ids["joined"] = joined.job_id
    await store.close()
    restore = await kept(connection, TABLES)
    return World(claims, ids, event.id, restore)


async def kept(connection: asyncpg.Connection[Any], tables: Sequence[str]) -> str:
    """Keep these tables as they are; the statements that make them so again."""
    restore = ""
    for table in tables:
        await connection.execute(f"CREATE TEMP TABLE kept_{table} AS TABLE {table}")
        own = "OVERRIDING SYSTEM VALUE" if table in NUMBERED else ""
        restore += f"DELETE FROM {table}; INSERT INTO {table} {own} SELECT * FROM kept_{table};"
    return f"BEGIN; SET LOCAL session_replication_role = replica; {restore} DELETE FROM audit; COMMIT"
