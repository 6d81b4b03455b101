"""A request has a name: in every log line of ours about it, and in its answer."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from euterpe.observe.logs import configure_logging
from tests.server.plane import running_plane


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    root = logging.getLogger()
    before = [*root.handlers], root.level, logging.getLogger("euterpe").level
    configure_logging("info", "json", strict=True, stream=stream, namespace="media")
    yield stream
    root.handlers[:], level, ours = before
    root.setLevel(level)
    logging.getLogger("euterpe").setLevel(ours)


async def test_a_failed_request_is_logged_under_the_name_that_its_answer_carries(
    sqlite_url: str, log: io.StringIO
) -> None:
    async with running_plane(sqlite_url) as plane, plane.client() as client:

        async def broken(*_: object) -> None:
            raise RuntimeError("a bug of ours")

        plane.store.get = broken  # type: ignore[method-assign, assignment]
        named = await client.get(f"/jobs/{'0' * 8}-0000-4000-8000-{'0' * 12}", headers={"X-Request-Id": "checkout-7"})
        nameless = await client.get(f"/jobs/{'0' * 8}-0000-4000-8000-{'0' * 12}")
        odd = await client.get("/healthz", headers={"X-Request-Id": "a b"})
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    told = [(line["request_id"], line["namespace"]) for line in lines if line["msg"] == "a request failed"]
    assert named.status_code == 500
    assert named.headers["x-request-id"] == "checkout-7"
    assert told == [("checkout-7", "media"), (nameless.headers["x-request-id"], "media")]
    assert len(nameless.headers["x-request-id"]) == len(odd.headers["x-request-id"]) == 32
