"""A byte that nobody asked for ends the connection, also before the first request."""

from __future__ import annotations

import asyncio
import select
import socket
import threading

import pytest

from euterpe.egress.errors import EgressFailed, EgressFailure
from euterpe.egress.http1 import Connection

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
REQUEST = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"


def answer_before_asked(listener: socket.socket, asked: threading.Event) -> None:
    with listener.accept()[0] as client:
        client.sendall(ANSWER)
        asked.wait(10)


def answer_when_asked(listener: socket.socket, asked: threading.Event) -> None:
    with listener.accept()[0] as client:
        client.recv(4096)
        client.sendall(ANSWER)
        asked.wait(10)


async def test_an_answer_that_came_before_the_question_is_not_its_answer() -> None:
    asked = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=answer_before_asked, args=(listener, asked), daemon=True)
        server.start()
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection("x", 1024), *listener.getsockname()
        )
        try:
            # The loop stands still until the bytes are there, so that it has not read them when we ask.
            assert connection._transport is not None
            there = connection._transport.get_extra_info("socket").fileno()
            assert select.select([there], [], [], 10)[0]
            with pytest.raises(EgressFailed) as refused:
                async with asyncio.timeout(30):
                    await connection.ask(REQUEST)
            assert refused.value.reason is EgressFailure.DISCONNECTED
            assert not connection.is_open
        finally:
            asked.set()
            connection.abort()
            server.join(10)


async def test_an_answer_that_comes_after_the_question_is() -> None:
    asked = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=answer_when_asked, args=(listener, asked), daemon=True)
        server.start()
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection("x", 1024), *listener.getsockname()
        )
        try:
            async with asyncio.timeout(30):
                assert (await connection.ask(REQUEST)).status == 200
                assert await connection.read() == b"hi"
        finally:
            asked.set()
            connection.abort()
            server.join(10)
