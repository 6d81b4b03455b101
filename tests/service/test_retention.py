"""The configuration's retention reaches the sweeps of the process."""

from __future__ import annotations

import pytest

from euterpe.config import load_config
from euterpe.model.errors import PayloadTooLarge
from euterpe.model.submitting.submission import Submission
from euterpe.queue.queue import Queue, core_of
from euterpe.service.roles import apply_store_settings
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.postgres.session import SessionPlan
from tests.sql_stores import sql


async def test_the_sweeps_keep_what_the_configuration_says(sqlite_url: str) -> None:
    environ = {"RETENTION_COMPLETED": "1h", "RETENTION_TOMBSTONES": "2d", "RETENTION_IDEMPOTENCY": "48h"}
    queue = Queue(sqlite_url)
    apply_store_settings(load_config(None, environ), queue)
    sweeps = core_of(queue).store.sweeps
    assert sweeps.retention.completed_us == 3600 * 1_000_000
    assert sweeps.retention.tombstones_us == 2 * 86_400 * 1_000_000
    assert core_of(queue).store.key_window_us == 48 * 3600 * 1_000_000


async def test_the_configured_limit_of_payloads_holds_for_an_app_too(sqlite_url: str) -> None:
    queue = Queue(sqlite_url)
    apply_store_settings(load_config(None, {"ENGINE_MAX_PAYLOAD": "10KB"}), queue)
    async with queue:
        await queue.submit("t", {"x": "y" * 9_000})
        for submit in (
            lambda: queue.submit("t", {"x": "y" * 20_000}),
            lambda: core_of(queue).store.submit(Submission(type="t", payload=b'"' + b"x" * 20_000 + b'"')),
        ):
            with pytest.raises(PayloadTooLarge):
                await submit()


def test_the_limit_that_an_app_names_stays_where_the_configuration_names_none() -> None:
    queue = Queue("sqlite:///:memory:", payload_limit=5_000_000)
    apply_store_settings(load_config(None, {}), queue)
    assert (core_of(queue).payload_limit, core_of(queue).store.payload_limit) == (5_000_000, 5_000_000)


def session_of(queue: Queue) -> SessionPlan:
    engine = sql(core_of(queue).store).engine
    assert isinstance(engine, PostgresEngine)
    return engine.session


@pytest.mark.parametrize(("lease", "allowed_s"), [("5s", 2.5), ("12s", 6.0), ("1m", 10.0)])
def test_a_frozen_role_of_any_kind_keeps_its_locks_for_half_a_lease_at_most(lease: str, allowed_s: float) -> None:
    queue = Queue("postgresql://nobody@127.0.0.1:1/none")
    assert session_of(queue).idle_transaction_s == 10.0  # who only submits knows of no lease
    apply_store_settings(load_config(None, {"WORKER_HEARTBEAT_TTL": lease}), queue)
    assert session_of(queue).idle_transaction_s == allowed_s
