"""HTTP statuses of errors: classed by the contract's table, told by a worker over HTTP or raised in Python."""

from __future__ import annotations

import asyncio
import time
import urllib.error
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any

import aiohttp
import httpx
import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from euterpe import HTTPError, Queue
from euterpe.model.failures.failure import Category
from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from euterpe.worker.failures import failure_of
from tests.server.plane import Plane, claim_one, lease_of

FAIL = "/internal/worker/fail"
TEMPORARY = (423, 429, 500, 502, 503, 504)
PERMANENT = (400, 401, 403, 404, 409, 410, 418, 422, 501, 505)


@pytest.mark.parametrize("status", TEMPORARY + PERMANENT)
async def test_a_status_that_a_worker_tells_is_classed_by_the_table(
    plane: Plane, client: httpx.AsyncClient, status: int
) -> None:
    job_id = (await plane.store.submit(Submission(type="t", requester_id="vesta"))).job_id
    error = {"message": f"{status} from upstream", "http_status": status}
    answer = (await client.post(FAIL, json=lease_of(await claim_one(client)) | {"error": error})).json()
    job = await plane.store.get(job_id)
    expected = (True, State.RETRYING, "temporary") if status in TEMPORARY else (False, State.FAILED, "permanent")
    document = job.error_document or {}
    assert (answer["requeued"], job.state, document["category"]) == expected
    assert document["http_status"] == status


async def test_a_category_wins_over_the_status_and_the_status_over_retryable(
    plane: Plane, client: httpx.AsyncClient
) -> None:
    for error, state in (
        ({"http_status": 404, "category": "temporary"}, State.RETRYING),
        ({"http_status": 503, "category": "permanent"}, State.FAILED),
        ({"http_status": 503, "retryable": False}, State.RETRYING),
        ({"http_status": 404, "retryable": True}, State.FAILED),
        ({"http_status": 200, "retryable": False}, State.FAILED),  # no refusal: the table has no word on it
    ):
        job_id = (await plane.store.submit(Submission(type="t", requester_id="vesta"))).job_id
        lease = lease_of(await claim_one(client))
        await client.post(FAIL, json=lease | {"error": {"message": "x"} | error})
        assert (await plane.store.get(job_id)).state is state, error


@pytest.mark.parametrize(
    ("error", "least_s", "most_s"),
    [
        ({"http_status": 503}, 0.9, 1.1),
        ({"http_status": 429}, 3.6, 4.4),  # two steps further: 1 s, 2 s, 4 s
        ({"http_status": 429, "retry_after": "2s"}, 3.6, 4.4),
        ({"http_status": 429, "retry_after": 90}, 90, 90),
    ],
)
async def test_a_429_waits_in_its_larger_bucket_or_as_long_as_it_says(
    plane: Plane, client: httpx.AsyncClient, error: dict[str, Any], least_s: float, most_s: float
) -> None:
    job_id = (await plane.store.submit(Submission(type="t", requester_id="vesta"))).job_id
    lease = lease_of(await claim_one(client))
    await client.post(FAIL, json=lease | {"error": {"message": "x"} | error})
    job = await plane.store.get(job_id)
    assert least_s <= (job.run_at - job.updated_at) / 1e6 <= most_s


def of_httpx(status: int, headers: dict[str, str]) -> Any:
    return httpx.Response(status, headers=headers)


def of_aiohttp(status: int, headers: dict[str, str]) -> Any:
    told = CIMultiDictProxy(CIMultiDict(headers))
    return aiohttp.ClientResponseError(SimpleNamespace(real_url="x"), (), status=status, headers=told)  # type: ignore[arg-type]  # a stand-in


def of_requests(status: int, headers: dict[str, str]) -> Any:
    return SimpleNamespace(status_code=status, headers=headers)  # requests is no dependency; its response has these two


def of_urllib(status: int, headers: dict[str, str]) -> Any:
    told = Message()
    for name, value in headers.items():
        told[name] = value
    return urllib.error.HTTPError("http://x", status, "no", told, None)


@pytest.mark.parametrize("make", [of_httpx, of_aiohttp, of_requests, of_urllib])
def test_an_error_is_made_of_the_response_of_any_library(make: Callable[[int, dict[str, str]], Any]) -> None:
    failure = failure_of(HTTPError.from_response(make(429, {"Retry-After": "120"}), "the printer is busy"))
    assert (failure.category, failure.http_status, failure.retry_after_us) == (Category.TEMPORARY, 429, 120_000_000)
    assert (failure.code, failure.message) == ("http_429", "the printer is busy")
    gone = failure_of(HTTPError.from_response(make(410, {})))
    assert (gone.category, gone.http_status, gone.retry_after_us) == (Category.PERMANENT, 410, None)


def test_retry_after_may_be_a_date() -> None:
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    waits_us = HTTPError.from_response(httpx.Response(503, headers={"Retry-After": at})).wait_us(time.time())
    assert waits_us is not None
    assert 95_000_000 < waits_us <= 100_000_000
    assert HTTPError(503, retry_after="whenever").wait_us(time.time()) == 0


def test_what_is_no_response_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="dict has no status_code"):
        HTTPError.from_response({})


async def test_a_handler_that_raises_it_is_retried_or_ends_by_the_status(sqlite_url: str) -> None:
    queue = Queue(sqlite_url)

    @queue.job("call")
    async def call(status: int) -> None:
        raise HTTPError(status, retry_after="600" if status == 429 else None)

    async with queue:
        stop = asyncio.Event()
        worker = asyncio.get_running_loop().create_task(queue.work(stop=stop))
        limited, missing = await call.submit(status=429), await call.submit(status=404)
        ended = await missing.wait("20s")
        async with asyncio.timeout(30):
            while (waiting := await queue.get(limited.id)).state is not State.RETRYING:  # noqa: ASYNC110  # no event for it
                await asyncio.sleep(0.01)
        stop.set()
        await worker
    assert (ended.state, ended.error and ended.error.code) == (State.FAILED, "http_404")
    assert (waiting.run_at - waiting.updated_at).total_seconds() == pytest.approx(600, abs=1)
