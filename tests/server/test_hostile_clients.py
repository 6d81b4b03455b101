"""Clients that are slow, endless, many, smuggling or rebound: each costs little, is told so, and harms nobody else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from euterpe.model.urls.hosts import AllowedHosts
from euterpe.server.http.connections import PIPELINE_LIMIT, ConnectionLimits
from euterpe.server.http.limits import Limits
from euterpe.service.health import Health
from tests.patience import PATIENCE_S
from tests.server.plane import Plane, anonymous, plane_process, running_plane
from tests.server.rawclient import RawClient, connected, memory_mb, statuses

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
EVERYWHERE = "0.0.0.0"  # noqa: S104  # nothing is bound to it
MANY = 40
ROOM = 20
QUICK = ConnectionLimits(head_timeout_s=0.3, body_timeout_s=0.5, write_timeout_s=0.5, keep_alive_s=0.5)


@pytest.fixture
async def plane(sqlite_url: str) -> AsyncIterator[Plane]:
    """With the limits of every day: what is endless must be cut off by its size."""
    async with running_plane(sqlite_url) as running:
        yield running


@pytest.fixture
async def quick(sqlite_url: str) -> AsyncIterator[Plane]:
    """With short deadlines."""
    async with running_plane(sqlite_url, Limits(body_timeout_s=0.3), connections=QUICK) as running:
        yield running


async def is_well(plane: Plane) -> bool:
    async with anonymous(plane.base_url) as client:
        return (await client.get("/healthz")).status_code == 200


# Endless


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        pytest.param(GET, b"X-A: %s\r\n" % (b"a" * 4000), id="headers"),
        pytest.param(GET, b"a: b\r\n" * 1000, id="tiny headers"),
        pytest.param(GET + b"X-A: ", b"a" * 4000, id="one header"),
        pytest.param(GET, b"a" * 4000, id="the name of a header"),
        pytest.param(b"GET /", b"a" * 4000, id="url"),
        pytest.param(b"", b"\r\n" * 2000, id="empty lines"),
    ],
)
async def test_a_head_without_end_is_refused_with_431(plane: Plane, start: bytes, piece: bytes) -> None:
    async with connected(plane.port) as client:
        await client.send(start)
        await client.send_until_cut_off(piece, 4_000_000)
        answer = await client.rest()
    assert statuses(answer) == [431]
    assert b"head_too_large" in answer
    assert await is_well(plane)


def test_endless_heads_do_not_grow_the_process(sqlite_url: str) -> None:
    async def attack(port: int) -> None:
        async with connected(port) as client:
            await client.send(GET)
            await client.send_until_cut_off(b"a: b\r\n" * 2000, 50_000_000)

    async def attacks(port: int) -> None:
        await asyncio.gather(*(attack(port) for _ in range(6)))

    with plane_process(sqlite_url) as process:
        before = memory_mb(process.process.pid)
        asyncio.run(attacks(process.port))
        assert memory_mb(process.process.pid) - before < 30


async def test_a_large_head_within_the_limit_is_taken(plane: Plane) -> None:
    async with connected(plane.port) as client:
        await client.send(GET + b"X-A: %s\r\n\r\n" % (b"a" * 60_000))
        assert statuses(await client.answer()) == [200]


async def test_the_limit_is_for_each_head_and_not_for_all_of_a_connection(plane: Plane) -> None:
    async with connected(plane.port) as client:
        for _ in range(5):
            await client.send(GET + b"X-A: %s\r\n\r\n" % (b"a" * 30_000))
            assert statuses(await client.answer()) == [200]


@pytest.mark.parametrize(
    "piece", [b"1;%s" % (b"e" * 4000), b"0\r\n" + b"X-Trailer: a\r\n" * 500], ids=["extension", "trailer"]
)
async def test_a_body_that_is_all_framing_is_cut_off(plane: Plane, piece: bytes) -> None:
    key = await plane.key("submit")
    head = (
        f"POST /jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    async with connected(plane.port) as client:
        await client.send(head.encode() + piece)
        sent = await client.send_until_cut_off(piece.removeprefix(b"0\r\n").removeprefix(b"1;"), 8_000_000)
        await client.rest()
    assert sent < 8_000_000
    assert await is_well(plane)


async def test_a_trailer_is_not_taken_for_a_header(plane: Plane) -> None:
    key = await plane.key("submit")
    head = (
        f"POST /jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    body = b'd\r\n{"type": "t"}\r\n0\r\nIdempotency-Key: k\r\n\r\n'
    async with connected(plane.port) as client:
        for _ in range(2):
            await client.send(head.encode() + body)
            answer = await client.answer()
            assert statuses(answer) == [202]
            assert b"idempotency-replayed" not in answer


async def test_requests_far_ahead_of_their_answers_end_the_connection(plane: Plane) -> None:
    async with connected(plane.port) as client:
        await client.send((GET + b"\r\n") * 1500)
        assert len(statuses(await client.rest())) <= PIPELINE_LIMIT + 1
    async with connected(plane.port) as client:
        await client.send((GET + b"\r\n") * 10)
        assert [statuses(await client.answer()) for _ in range(10)] == [[200]] * 10


# Slow


@pytest.mark.parametrize("said", [b"", b"G", GET, GET + b"X-A"], ids=["nothing", "a letter", "half", "half a header"])
async def test_a_connection_without_a_whole_head_is_closed_in_time(quick: Plane, said: bytes) -> None:
    async with connected(quick.port) as client:
        await client.send(said)
        assert statuses(await client.rest()) == ([408] if said else [])


async def test_a_byte_now_and_then_buys_no_time(quick: Plane) -> None:
    async with connected(quick.port) as client:

        async def drip() -> None:
            while True:
                await client.send(b"a")
                await asyncio.sleep(0.02)  # a drop now and then is what is tested

        await client.send(GET)
        dripping = asyncio.get_running_loop().create_task(drip())
        try:
            assert statuses(await client.rest()) == [408]
        finally:
            dripping.cancel()
            await asyncio.gather(dripping, return_exceptions=True)


@pytest.mark.parametrize("body", [b"", b'{"ty'], ids=["no first byte", "half"])
async def test_a_body_that_does_not_come_is_answered_in_time(quick: Plane, body: bytes) -> None:
    key = await quick.key("submit")
    head = f"POST /jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Length: 100\r\n\r\n"
    async with connected(quick.port) as client:
        await client.send(head.encode() + body)
        answer = await client.rest()
    assert statuses(answer) == [408]
    assert b"slow_body" in answer


async def test_the_rest_of_a_refused_body_does_not_keep_the_connection(quick: Plane) -> None:
    head = b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
    async with connected(quick.port) as client:
        await client.send(head)
        assert statuses(await client.answer()) == [401]
        await client.send(b"a")
        assert await client.rest() == b""


async def test_a_connection_that_has_nothing_more_to_ask_is_closed(quick: Plane) -> None:
    async with connected(quick.port) as client:
        await client.send(GET + b"Content-Length: 3\r\n\r\n")
        assert statuses(await client.answer()) == [200]
        await client.send(b"abc")  # the body of what was answered already
        assert await client.rest() == b""


async def test_a_client_that_does_not_read_its_answer_is_cut_off(sqlite_url: str) -> None:
    connections = ConnectionLimits(write_timeout_s=0.3)
    async with running_plane(sqlite_url, connections=connections) as plane, plane.client() as submitter:
        for _ in range(12):
            await submitter.post("/jobs", json={"type": "t", "correlation_id": "c" * 200, "payload": "x" * 900_000})
        ids = [job["job_id"] for job in (await submitter.get("/jobs")).json()["jobs"]]
        key = await plane.key("read")
        async with connected(plane.port) as client:
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport that reads
            for job_id in ids:
                head = f"GET /jobs/{job_id} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n"
                await client.send(head.encode())
            await until_only(plane, 1)


async def until_only(plane: Plane, count: int) -> None:
    """Wait until the server has at most so many connections."""
    async with asyncio.timeout(PATIENCE_S):
        while len(plane.connections) > count:  # noqa: ASYNC110  # the server notices by itself
            await asyncio.sleep(0.02)


# Many


async def test_silent_connections_give_way_to_those_who_ask(sqlite_url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "euterpe.api")
    async with (
        running_plane(sqlite_url, connections=ConnectionLimits(max_connections=ROOM, head_timeout_s=600)) as plane,
        AsyncExitStack() as stack,
        anonymous(plane.base_url) as client,
    ):
        assert (await client.get("/healthz")).status_code == 200
        silent = [await stack.enter_async_context(connected(plane.port)) for _ in range(MANY)]
        assert await silent[0].rest() == b"", "the oldest goes first"
        assert await is_well(plane), "a newcomer is answered"
        assert (await client.get("/healthz")).status_code == 200, "who asked before stays before the silent"
        assert len(plane.connections) <= ROOM
    assert any("connections are taken" in record.message for record in caplog.records)


async def test_who_is_being_answered_is_not_dropped_for_a_newcomer(sqlite_url: str) -> None:
    connections = ConnectionLimits(max_connections=3)
    async with running_plane(sqlite_url, connections=connections) as plane, AsyncExitStack() as stack:
        key = await plane.key("read")
        head = f"GET /events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
        streams: list[RawClient] = []
        for _ in range(3):
            streams.append(await stack.enter_async_context(connected(plane.port)))
            await streams[-1].send(head)
            assert statuses(await streams[-1].answer()) == [200]
        refused = await stack.enter_async_context(connected(plane.port))
        assert await refused.rest() == b""
        assert len(plane.connections) == 3


@pytest.mark.parametrize("open_files", [(128, 4096), (128, 128)], ids=["raised", "not to be raised"])
def test_more_connections_than_open_files_do_not_silence_the_api(sqlite_url: str, open_files: tuple[int, int]) -> None:
    async def crowd(port: int, base_url: str) -> int:
        async with AsyncExitStack() as stack, anonymous(base_url) as client:
            for _ in range(300):
                await stack.enter_async_context(connected(port))
            return (await client.get("/healthz", timeout=10)).status_code

    with plane_process(sqlite_url, open_files=open_files) as process:
        assert asyncio.run(crowd(process.port, process.base_url)) == 200


# Smuggling: what two servers could read differently is not read at all

INNER = b"GET /stats HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: 5, 5\r\n",
        b"Content-Length: +5\r\n",
        b"Content-Length: 0x5\r\n",
        b"Content-Length : 5\r\n",
        b"Content-Length:\x0b5\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Transfer-Encoding: \x0bchunked\r\n",
        b"X: y\nTransfer-Encoding: chunked\r\n",
        b"X: y\r\n Transfer-Encoding: chunked\r\n",
        b"X: y\rTransfer-Encoding: chunked\r\n",
        b"X\x00: y\r\n",
    ],
)
async def test_an_ambiguous_request_is_refused_and_what_hides_in_it_is_not_served(plane: Plane, head: bytes) -> None:
    request = b"POST /jobs HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n0\r\n\r\n" + INNER
    async with connected(plane.port) as client:
        await client.send(request)
        answers = await client.rest()
    assert statuses(answers) == [400], answers


async def test_nothing_after_a_last_request_is_served(plane: Plane) -> None:
    for last in (b"Connection: close\r\n", b"Connection: upgrade\r\nUpgrade: h2c\r\n"):
        async with connected(plane.port) as client:
            await client.send(GET + last + b"\r\n" + INNER)
            assert statuses(await client.rest()) == [200]


# Rebound: a page whose name leads to loopback


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil", EVERYWHERE, "[::2]", ""]
)
async def test_a_server_on_loopback_does_not_answer_to_strange_names(plane: Plane, host: str) -> None:
    async with anonymous(plane.base_url) as client:
        for path in ("/metrics", "/healthz", "/docs", "/jobs"):
            answer = await client.get(path, headers={"host": host})
            assert (answer.status_code, answer.json()["code"]) == (421, "wrong_host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:9", "localhost."])
async def test_it_answers_to_the_names_of_loopback_with_any_port(plane: Plane, host: str) -> None:
    async with anonymous(plane.base_url) as client:
        assert (await client.get("/metrics", headers={"host": host})).status_code == 200


async def test_one_name_is_one_name(plane: Plane) -> None:
    for hosts in (b"Host: evil.example\r\nHost: localhost\r\n", b"Host: localhost\r\nHost: evil.example\r\n", b""):
        async with connected(plane.port) as client:
            await client.send(b"GET /metrics HTTP/1.1\r\n" + hosts + b"\r\n")
            assert statuses(await client.rest())[0] in (400, 421)


async def test_configured_names_are_answered_too(sqlite_url: str) -> None:
    async with (
        running_plane(sqlite_url, allowed_hosts=("queue.example",)) as plane,
        anonymous(plane.base_url) as client,
    ):
        for host, status in (("queue.example:8080", 200), ("Queue.Example", 200), ("localhost", 200), ("other", 421)):
            assert (await client.get("/healthz", headers={"host": host})).status_code == status


def test_a_server_for_others_answers_to_every_name_unless_it_has_its_own() -> None:
    assert AllowedHosts(EVERYWHERE).allow(b"whatever.example")
    assert AllowedHosts(EVERYWHERE).allow(None)
    assert not AllowedHosts(EVERYWHERE, ["queue.example"]).allow(b"whatever.example")
    assert AllowedHosts("10.0.0.5", ["queue.example"]).allow(b"10.0.0.5:8080")
    assert AllowedHosts("::1").allow(b"[::1]:8080")


async def test_the_metrics_port_of_a_worker_does_not_answer_to_strange_names() -> None:
    async def well() -> None:
        return None

    health = Health(lambda: ("text/plain", b"up 1\n"), well, asyncio.Event(), AllowedHosts("127.0.0.1"))
    async with health.listening("127.0.0.1", 0) as port, anonymous(f"http://127.0.0.1:{port}") as client:
        assert (await client.get("/metrics")).text == "up 1\n"
        assert (await client.get("/metrics", headers={"host": "evil.example"})).status_code == 421


async def test_silent_connections_do_not_keep_others_from_the_metrics_port(monkeypatch: pytest.MonkeyPatch) -> None:
    async def well() -> None:
        return None

    monkeypatch.setattr("euterpe.service.health.CONNECTION_LIMIT", 4)
    monkeypatch.setattr("euterpe.service.health.REQUEST_PATIENCE_S", 0.2)
    health = Health(lambda: ("text/plain", b"up 1\n"), well, asyncio.Event(), AllowedHosts("127.0.0.1"))
    async with health.listening("127.0.0.1", 0) as port, AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(connected(port)) for _ in range(10)]
        for one in silent:
            assert await one.rest() == b""
        async with anonymous(f"http://127.0.0.1:{port}") as client:
            assert (await client.get("/metrics")).text == "up 1\n"
