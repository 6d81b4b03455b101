"""What stands around the fragments on a page: the names that its code uses, with real things behind them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncpg
import pytest

import euterpe
from euterpe.webhook.signing import new_nonce, new_secret, sign

Names = dict[str, Any]
Scene = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[Names]]


def job_types(queue: euterpe.Queue) -> Names:
    """Job types under the names that pages like to use. Each takes what it is given."""

    @queue.job("render")
    async def render(report_id: int = 0) -> int:
        return report_id

    @queue.job("extract")
    async def extract(day: str = "") -> str:
        return day

    @queue.job("load")
    async def load(day: str = "", rows: Any = None) -> str:
        return f"{day} {rows}"

    @queue.job("summary")
    async def summary(parts: list[Any] | None = None, title: str = "") -> int:
        return len(parts or []) + len(title)

    @queue.job("customer.sync")
    async def sync_customer(customer: int) -> int:
        return customer

    @queue.job("confirm")
    async def confirm(order_id: int) -> int:
        return order_id

    @queue.job("plain")
    async def plain() -> None: ...

    return {
        "queue": queue, "render": render, "extract": extract, "load": load, "fetch": extract, "confirm": confirm,
        "report": plain, "summary": summary, "sync_customer": sync_customer, "alarm": plain,
        "euterpe": euterpe, "Queue": euterpe.Queue,
    }  # fmt: skip


@asynccontextmanager
async def usual(request: pytest.FixtureRequest) -> AsyncIterator[Names]:
    """An open queue on SQLite, with job types and a worker."""
    url = request.getfixturevalue("sqlite_url")
    queue = euterpe.Queue(url)
    names = job_types(queue) | {"url": url, "days": ["mon", "tue"]}
    async with queue, queue.worker(webhooks=False):
        yield names | {"extract_job": await names["extract"].submit(day="mon"), "job_id": "7"}


@asynccontextmanager
async def receiving(request: pytest.FixtureRequest) -> AsyncIterator[Names]:
    """Afterwards the page's receiver gets an event as it is really sent, and one that somebody has changed."""
    async with usual(request) as names:
        yield names
    secret, body = new_secret(), b'{"event_id": "e-1", "type": "job.completed", "sequence": 1}'
    headers = sign(secret, body, event_id="e-1", timestamp=_now(), nonce=new_nonce())
    assert names["receive"](headers, body, secret) == (204, "e-1")
    assert names["receive"](headers, body, secret)[0] == 401, "the same delivery twice"
    fresh = sign(secret, body, event_id="e-1", timestamp=_now(), nonce=new_nonce())
    assert names["receive"](fresh, body.replace(b"1", b"2"), secret)[0] == 401


@asynccontextmanager
async def on_postgres(request: pytest.FixtureRequest) -> AsyncIterator[Names]:
    """An asyncpg connection beside a queue in the same database."""
    url = request.getfixturevalue("fresh_postgres_url")
    queue = euterpe.Queue(url)
    connection = await asyncpg.connect(url.partition("?schema=")[0])
    try:
        await connection.execute("CREATE TEMP TABLE orders (id int)")
        async with queue:
            yield job_types(queue) | {"connection": connection, "pool": connection}
            assert len((await queue.search(type="confirm")).jobs) >= 3
            assert await connection.fetchval("SELECT count(*) FROM orders") == 1
    finally:
        await connection.close()


def _now() -> int:
    import time

    return int(time.time())


SCENES: dict[str, Scene] = {"webhooks.md": receiving, "transactions.md": on_postgres}
"""Pages with a scene of their own; every other page has the usual one."""
RUN_ELSEWHERE = {
    "README.md": "tests/examples/test_docs.py",
    "quickstart.md": "tests/examples/test_docs.py",
    "python.md": "tests/examples/test_docs.py",
    "testing.md": "tests/examples/test_docs.py",
    "hooks.md": "tests/examples/test_docs.py",
}
READ_ONLY = {
    "transactions.md": "transaction.atomic()",  # Django is set up once a process: tests/caller/test_django.py
}
"""Blocks with this text are compiled and not run."""
