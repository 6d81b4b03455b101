"""The configuration's retention reaches the sweeps of the process."""

from __future__ import annotations

from euterpe.config import load_config
from euterpe.queue.queue import Queue
from euterpe.service.roles import keep_as_said


async def test_the_sweeps_keep_what_the_configuration_says(sqlite_url: str) -> None:
    environ = {"RETENTION_COMPLETED": "1h", "RETENTION_TOMBSTONES": "2d", "RETENTION_IDEMPOTENCY": "48h"}
    queue = Queue(sqlite_url)
    keep_as_said(load_config(None, environ), queue)
    sweeps = queue.store.sweeps
    assert sweeps.retention.completed_us == 3600 * 1_000_000
    assert sweeps.retention.tombstones_us == 2 * 86_400 * 1_000_000
    assert queue.store.key_window_us == 48 * 3600 * 1_000_000
