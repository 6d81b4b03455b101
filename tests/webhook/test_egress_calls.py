"""What a call sends and brings back, and how servers that hang, drip, flood or lie are cut off."""

from __future__ import annotations

import asyncio
import time
import tracemalloc

import pytest

from euterpe.egress.client import Egress, EgressLimits
from euterpe.egress.errors import EgressFailed, EgressFailure, EgressRefusal, EgressRefused
from euterpe.egress.target import EgressPolicy
from tests.patience import in_time
from tests.webhook.canary import OK, PATIENCE_S, Canary, Names, answering, flooding, read_request, serving

LOOPBACK = EgressPolicy(allow_loopback=True)
LITTLE_MEMORY_BYTES = 4 * 1024 * 1024
KEEP_IDLE = EgressLimits(idle_s=3600)  # so that a connection that goes was not just idle for too long


class TestAnOrdinaryCall:
    async def test_the_request_arrives_as_given(self) -> None:
        async with serving() as server, Egress(LOOPBACK) as egress:
            reply = await egress.post(server.url("/a%20b?c=d"), b"\x00body", {"X-One": "1", "content-type": "x/y"})
        lines = server.requests[0].decode().split("\r\n")
        assert lines[0] == "POST /a%20b?c=d HTTP/1.1"
        assert set(lines[1:-2]) == {
            f"host: 127.0.0.1:{server.port}",
            "user-agent: euterpe",
            "accept-encoding: identity",
            "X-One: 1",
            "content-type: x/y",
            "content-length: 5",
        }
        assert server.bodies == [b"\x00body"]
        assert (reply.status, reply.body_prefix, reply.truncated) == (204, b"", False)
        assert 0 < reply.elapsed_s < PATIENCE_S

    async def test_the_answer_comes_back_whole(self) -> None:
        answer = b"HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 4\r\n\r\nwait"
        async with serving(answering(answer)) as server, Egress(LOOPBACK) as egress:
            reply = await egress.post(server.url(), b"")
        assert (reply.status, reply.body_prefix) == (429, b"wait")
        assert (reply.headers["retry-after"], reply.headers["x-a"]) == ("7", "1, 2")

    @pytest.mark.parametrize(
        "answer",
        [
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nt: 1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabcde",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: x\r\n\r\n"
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabcde",
        ],
        ids=["chunked", "sized", "after informational answers"],
    )
    async def test_connections_are_used_again(self, answer: bytes) -> None:
        async with serving(answering(answer)) as server, Egress(LOOPBACK) as egress:
            for _ in range(5):
                reply = await egress.post(server.url(), b"{}")
                assert (reply.status, reply.body_prefix) == (200, b"abcde")
        assert (server.connections, len(server.requests)) == (1, 5)

    @pytest.mark.parametrize(
        "answer",
        [
            b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi",
            b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi",
        ],
    )
    async def test_a_server_that_wants_to_close_is_left_alone(self, answer: bytes) -> None:
        async with serving(answering(answer)) as server, Egress(LOOPBACK) as egress:
            for _ in range(2):
                assert (await egress.post(server.url(), b"{}")).body_prefix == b"hi"
        assert server.connections == 2

    async def test_a_body_may_end_with_the_connection(self) -> None:
        async def script(canary: Canary, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(canary, reader)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")
            await writer.drain()
            writer.write_eof()
            await reader.read()

        async with serving(script) as server, Egress(LOOPBACK) as egress:
            assert (await egress.post(server.url(), b"{}")).body_prefix == b"until the end"

    async def test_idle_connections_are_closed_after_their_time(self) -> None:
        async with serving() as server, Egress(LOOPBACK, limits=EgressLimits(idle_s=0.05)) as egress:
            await egress.post(server.url(), b"{}")
            await asyncio.wait_for(server.gone.wait(), PATIENCE_S)

    async def test_closing_closes_the_idle_connections(self) -> None:
        async with serving() as server:
            async with Egress(LOOPBACK) as egress:
                await asyncio.gather(*(egress.post(server.url(), b"{}") for _ in range(5)))
            await asyncio.wait_for(server.gone.wait(), PATIENCE_S)

    async def test_a_large_body_is_sent_whole(self) -> None:
        body = bytes(range(256)) * 20_000
        async with serving() as server, Egress(LOOPBACK) as egress:
            assert (await egress.post(server.url(), body)).status == 204
        assert server.bodies == [body]

    async def test_many_calls_at_once_each_get_their_own_answer(self) -> None:
        async def echo(canary: Canary, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await read_request(canary, reader):
                path = canary.requests[-1].split(b" ")[1]
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(path), path))
                await writer.drain()

        async with serving(echo) as server, Egress(LOOPBACK) as egress:
            replies = await asyncio.gather(*(egress.post(server.url(f"/{n}"), b"") for n in range(100)))
            assert [reply.body_prefix for reply in replies] == [b"/%d" % n for n in range(100)]


async def _fails(server: Canary, reason: EgressFailure, *, deadline_s: float = PATIENCE_S) -> float:
    """Call and expect this failure; gives the time it took. The server must see the connection go."""
    started = time.monotonic()
    async with Egress(LOOPBACK) as egress:
        with pytest.raises(EgressFailed) as failed:
            await egress.post(server.url(), b"{}", deadline_s=deadline_s)
        took_s = time.monotonic() - started
        assert failed.value.reason is reason, failed.value
        await asyncio.wait_for(server.gone.wait(), PATIENCE_S)
    return took_s


HEAD = b"HTTP/1.1 200 OK\r\n"
MANY = b"x" * 65536


class TestServersThatMisbehave:
    @pytest.mark.parametrize(
        ("start", "then", "pause_s"),
        [
            (b"", b"", 0.01),
            (HEAD, b"x", 0.01),
            (HEAD + b"content-length: 1000000\r\n\r\n", b"x", 0.01),
            (HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n", 0.01),
        ],
        ids=["hangs", "drips its head", "drips its body", "drips its chunks"],
    )
    async def test_the_slow_are_cut_off_at_the_deadline(self, start: bytes, then: bytes, pause_s: float) -> None:
        async with serving(flooding(start, then, pause_s)) as server:
            took_s = await _fails(server, EgressFailure.TIMEOUT, deadline_s=0.25)
        assert took_s > 0.2
        in_time(took_s, 5)

    @pytest.mark.parametrize(
        ("start", "then", "reason"),
        [
            (HEAD + b"x: ", MANY, EgressFailure.HEADERS_TOO_LARGE),
            (HEAD, b"x: y\r\n" * 1000, EgressFailure.HEADERS_TOO_LARGE),
            (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, EgressFailure.HEADERS_TOO_LARGE),
            (b"HTTP/1.1 200 ", MANY, EgressFailure.HEADERS_TOO_LARGE),
            (
                HEAD + b"transfer-encoding: chunked\r\n\r\n",
                b"1;" + b"e" * 9000 + b"\r\nx\r\n",
                EgressFailure.PROTOCOL,
            ),
            (HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\n", b"t: x\r\n" * 1000, EgressFailure.HEADERS_TOO_LARGE),
            (b"", b"SSH-2.0-OpenSSH\r\n", EgressFailure.PROTOCOL),
            (b"", b"\x16\x03\x01" * 100, EgressFailure.PROTOCOL),
            (HEAD + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n", b"5\r\n", EgressFailure.PROTOCOL),
            (HEAD + b"content-length: 5\r\ncontent-length: 6\r\n\r\n", b"abc", EgressFailure.PROTOCOL),
            (HEAD + b"content-length: -1\r\n\r\n", b"abc", EgressFailure.PROTOCOL),
            (HEAD + b"transfer-encoding: chunked\r\n\r\nZZ\r\n", b"abc", EgressFailure.PROTOCOL),
            (b"HTTP/1.1 101 Switch\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", b"abc", EgressFailure.PROTOCOL),
            (b"HTTP/1.1 101 Switch\r\n\r\n", b"abc", EgressFailure.PROTOCOL),
        ],
        ids=[
            "endless header",
            "endless headers",
            "endless informational answers",
            "endless reason",
            "more framing than content",
            "endless trailers",
            "another protocol",
            "tls where there should be none",
            "two framings",
            "two lengths",
            "negative length",
            "broken chunk",
            "upgrade",
            "upgrade without a word",
        ],
    )
    async def test_liars_and_flooders_are_cut_off_long_before_the_deadline(
        self, start: bytes, then: bytes, reason: EgressFailure
    ) -> None:
        async with serving(flooding(start, then)) as server:
            tracemalloc.start()
            try:
                took_s = await _fails(server, reason)
                _, peak_bytes = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
        in_time(took_s, PATIENCE_S / 2)
        assert peak_bytes < LITTLE_MEMORY_BYTES

    @pytest.mark.parametrize(
        ("start", "then"),
        [
            (HEAD + b"content-length: 1073741824\r\n\r\n", MANY),
            (HEAD + b"transfer-encoding: chunked\r\n\r\n", b"10000\r\n" + MANY + b"\r\n"),
            (HEAD + b"\r\n", MANY),
            (HEAD + b"content-encoding: gzip\r\ncontent-length: 1073741824\r\n\r\n", MANY),
        ],
        ids=["sized", "chunked", "until the end", "compressed"],
    )
    async def test_of_an_answer_of_a_gigabyte_64_kilobytes_are_read(self, start: bytes, then: bytes) -> None:
        async with serving(flooding(start, then)) as server, Egress(LOOPBACK) as egress:
            tracemalloc.start()
            try:
                reply = await egress.post(server.url(), b"{}")
                _, peak_bytes = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            await asyncio.wait_for(server.gone.wait(), PATIENCE_S)
        assert (reply.status, len(reply.body_prefix), reply.truncated) == (200, 65536, True)
        assert peak_bytes < LITTLE_MEMORY_BYTES

    async def test_an_answer_of_exactly_the_limit_is_not_called_truncated(self) -> None:
        answer = HEAD + b"content-length: 65536\r\n\r\n" + MANY
        async with serving(answering(answer)) as server, Egress(LOOPBACK) as egress:
            for _ in range(2):
                reply = await egress.post(server.url(), b"{}")
                assert (len(reply.body_prefix), reply.truncated) == (65536, False)
        assert server.connections == 1

    @pytest.mark.parametrize(
        "start", [b"", HEAD, HEAD + b"content-length: 5\r\n\r\nab", HEAD + b"transfer-encoding: chunked\r\n\r\n"]
    )
    async def test_a_server_that_hangs_up_early_failed(self, start: bytes) -> None:
        async def script(canary: Canary, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(canary, reader)
            writer.write(start)
            await writer.drain()
            writer.write_eof()
            await reader.read()

        async with serving(script) as server:
            await _fails(server, EgressFailure.DISCONNECTED)

    async def test_nobody_there_is_a_failure_to_connect(self) -> None:
        async with serving() as server:
            url = server.url()
        async with Egress(LOOPBACK) as egress:
            with pytest.raises(EgressFailed) as failed:
                await egress.post(url, b"{}")
        assert failed.value.reason is EgressFailure.CONNECT

    async def test_a_hanging_name_server_counts_against_the_deadline(self) -> None:
        class Hanging(Names):
            async def resolve(self, host: str, port: int) -> tuple[str, ...]:
                await asyncio.Event().wait()
                raise AssertionError

        async with Egress(EgressPolicy(), resolver=Hanging()) as egress:
            with pytest.raises(EgressFailed) as failed:
                await egress.post("https://example.com/", b"{}", deadline_s=0.05)
        assert failed.value.reason is EgressFailure.TIMEOUT

    async def test_the_next_caller_never_gets_an_answer_that_was_sent_before_it_asked(self) -> None:
        answered, poisoned = asyncio.Event(), asyncio.Event()

        async def script(canary: Canary, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(canary, reader)
            writer.write(OK)
            await writer.drain()
            if canary.connections == 1:
                await answered.wait()  # the connection is idle now
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\npoisoned")
                await writer.drain()
                await reader.read()  # until the client has had enough of us
                poisoned.set()

        async with serving(script) as server, Egress(LOOPBACK, limits=KEEP_IDLE) as egress:
            assert (await egress.post(server.url(), b"{}")).status == 204
            answered.set()
            await asyncio.wait_for(poisoned.wait(), PATIENCE_S)
            assert (await egress.post(server.url(), b"{}")).status == 204
        assert server.connections == 2

    async def test_a_server_that_answers_without_listening_gets_no_second_request(self) -> None:
        async def script(canary: Canary, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if canary.connections == 2:
                await answering(OK)(canary, reader, writer)
                return
            await reader.readuntil(b"\r\n\r\n")
            writer.write(OK)
            await writer.drain()
            while await reader.read(65536):
                pass

        async with serving(script) as server, Egress(LOOPBACK, limits=KEEP_IDLE) as egress:
            assert (await egress.post(server.url(), bytes(64 * 1024 * 1024))).status == 204
            assert (await egress.post(server.url(), b"{}")).status == 204
        assert (server.connections, server.bodies) == (2, [b"{}"])

    async def test_two_answers_to_one_request_end_the_connection(self) -> None:
        async with serving(answering(OK + OK)) as server, Egress(LOOPBACK, limits=KEEP_IDLE) as egress:
            for _ in range(3):
                assert (await egress.post(server.url(), b"{}")).status == 204
                await asyncio.wait_for(server.gone.wait(), PATIENCE_S)
                server.gone.clear()
        assert server.connections == 3

    async def test_a_flood_on_an_idle_connection_is_cut_off(self) -> None:
        answered = asyncio.Event()

        async def script(canary: Canary, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(canary, reader)
            writer.write(OK)
            await answered.wait()
            while not writer.is_closing():
                writer.write(OK * 1000)
                await writer.drain()

        async with serving(script) as server, Egress(LOOPBACK, limits=KEEP_IDLE) as egress:
            assert (await egress.post(server.url(), b"{}")).status == 204
            answered.set()
            await asyncio.wait_for(server.gone.wait(), PATIENCE_S)

    async def test_one_hanging_receiver_does_not_delay_another(self) -> None:
        async with (
            serving(flooding(b"", b"", 0.01)) as hanging,
            serving() as healthy,
            Egress(LOOPBACK) as egress,
        ):
            stuck = [asyncio.create_task(egress.post(hanging.url(), b"{}", deadline_s=PATIENCE_S)) for _ in range(50)]
            for _ in range(20):
                assert (await egress.post(healthy.url(), b"{}", deadline_s=PATIENCE_S / 2)).status == 204
            assert not any(task.done() for task in stuck)
            for task in stuck:
                task.cancel()
            await asyncio.gather(*stuck, return_exceptions=True)

    async def test_a_cancelled_call_closes_its_connection(self) -> None:
        async with serving(flooding(b"", b"", 0.01)) as server, Egress(LOOPBACK) as egress:
            call = asyncio.create_task(egress.post(server.url(), b"{}"))
            await asyncio.wait_for(server.asked.wait(), PATIENCE_S)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await asyncio.wait_for(server.gone.wait(), PATIENCE_S)


class TestDownloads:
    async def test_a_body_arrives_piece_by_piece_with_flat_memory(self) -> None:
        size = 64 * 1024 * 1024

        async def script(canary: Canary, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(canary, reader)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
            for _ in range(size // len(MANY)):
                writer.write(MANY)
                await writer.drain()
            await reader.read()

        async with serving(script) as server, Egress(LOOPBACK) as egress:
            tracemalloc.start()
            try:
                received = 0
                async with egress.get(server.url(), max_bytes=size, deadline_s=60) as download:
                    assert (download.status, download.content_length) == (200, size)
                    async for chunk in download:
                        received += len(chunk)
                _, peak_bytes = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
        assert received == size
        assert peak_bytes < LITTLE_MEMORY_BYTES

    async def test_a_reader_that_takes_its_time_holds_the_server_back(self) -> None:
        sent = 0

        async def script(canary: Canary, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            await read_request(canary, reader)
            writer.write(HEAD + b"\r\n")
            while not writer.is_closing():
                writer.write(MANY)
                await writer.drain()
                sent += len(MANY)

        async with serving(script) as server, Egress(LOOPBACK) as egress:
            async with egress.get(server.url(), max_bytes=2**40, deadline_s=60) as download:
                before = -1
                while sent != before:  # until the server cannot send any more
                    before = sent
                    for _ in range(100):
                        await asyncio.sleep(0)
                assert sent < 64 * 1024 * 1024
                pieces = aiter(download)
                received = 0
                while received <= before:
                    received += len(await anext(pieces))
            await asyncio.wait_for(server.gone.wait(), PATIENCE_S)

    @pytest.mark.parametrize(
        ("start", "then"),
        [
            (HEAD + b"content-length: 1000001\r\n\r\n", MANY),
            (HEAD + b"transfer-encoding: chunked\r\n\r\n", b"10000\r\n" + MANY + b"\r\n"),
            (HEAD + b"\r\n", MANY),
        ],
        ids=["said so", "chunked", "until the end"],
    )
    async def test_more_than_allowed_is_refused(self, start: bytes, then: bytes) -> None:
        async with serving(flooding(start, then)) as server, Egress(LOOPBACK) as egress:
            received = 0
            with pytest.raises(EgressRefused) as refused:  # noqa: PT012 - opening or reading may raise it
                async with egress.get(server.url(), max_bytes=1_000_000, deadline_s=PATIENCE_S) as download:
                    async for chunk in download:
                        received += len(chunk)
            await asyncio.wait_for(server.gone.wait(), PATIENCE_S)
        assert refused.value.reason is EgressRefusal.ANSWER_TOO_LARGE
        assert received <= 1_000_000

    @pytest.mark.parametrize(("deadline_s", "idle_timeout_s"), [(0.25, 10), (60, 0.25)])
    async def test_a_download_that_stalls_is_ended(self, deadline_s: float, idle_timeout_s: float) -> None:
        async def script(canary: Canary, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(canary, reader)
            writer.write(HEAD + b"content-length: 10\r\n\r\nabc")
            await writer.drain()
            await reader.read()

        async with serving(script) as server, Egress(LOOPBACK) as egress:
            received = b""
            with pytest.raises(EgressFailed) as failed:  # noqa: PT012 - it comes in the middle of reading
                async with egress.get(
                    server.url(), max_bytes=10, deadline_s=deadline_s, idle_timeout_s=idle_timeout_s
                ) as download:
                    async for chunk in download:
                        received += chunk
            await asyncio.wait_for(server.gone.wait(), PATIENCE_S)
        assert failed.value.reason is EgressFailure.TIMEOUT
        assert received == b"abc"

    async def test_a_download_cut_short_is_a_failure_and_not_an_end(self) -> None:
        async def script(canary: Canary, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(canary, reader)
            writer.write(HEAD + b"content-length: 10\r\n\r\nabc")
            await writer.drain()
            writer.write_eof()
            await reader.read()

        async with serving(script) as server, Egress(LOOPBACK) as egress:
            with pytest.raises(EgressFailed) as failed:  # noqa: PT012 - it comes in the middle of reading
                async with egress.get(server.url(), max_bytes=10, deadline_s=PATIENCE_S) as download:
                    async for _ in download:
                        pass
        assert failed.value.reason is EgressFailure.DISCONNECTED
