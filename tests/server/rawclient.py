"""Clients that do not play by the rules: bytes as they are, over a real connection to loopback."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.patience import PATIENCE_S

LOCAL = "127.0.0.1"


class RawClient:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._socket: socket.socket = writer.get_extra_info("socket").dup()

    def close(self) -> None:
        self.writer.transport.abort()
        self._socket.close()

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def send_until_cut_off(self, piece: bytes, limit_bytes: int) -> int:
        """Send the same again and again; returns how much was taken before the server said no more."""
        sent = 0
        try:
            while sent < limit_bytes and not self._reader.at_eof():
                await asyncio.wait_for(self.send(piece), 5)
                sent += len(piece)
                await asyncio.sleep(0)
        except (ConnectionError, TimeoutError):
            pass
        return sent

    async def rest(self, timeout_s: float = PATIENCE_S) -> bytes:
        """All that comes until the server closes; the test fails when it does not."""
        got = bytearray()
        async with asyncio.timeout(timeout_s):
            try:
                while piece := await self._reader.read(65_536):
                    got += piece
            except ConnectionError:
                # A transport that could not write gives up, and does not read what had come before.
                got += self._reader._buffer  # type: ignore[attr-defined]  # read() does not give it out any more
                got += await self._what_the_system_has()
        return bytes(got)

    async def _what_the_system_has(self) -> bytes:
        loop, got = asyncio.get_running_loop(), b""
        try:
            while piece := await loop.sock_recv(self._socket, 65_536):
                got += piece
        except ConnectionError:
            pass
        return got

    async def status(self, timeout_s: float = PATIENCE_S) -> int:
        """The status of an answer whose body is left unread."""
        async with asyncio.timeout(timeout_s):
            return int((await self._reader.readuntil(b"\r\n")).split(b" ")[1])

    async def answer(self, timeout_s: float = PATIENCE_S) -> bytes:
        """Head and body of one answer that says its length."""
        async with asyncio.timeout(timeout_s):
            head = await self._reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head.lower())
            return head + (await self._reader.readexactly(int(length[1])) if length else b"")


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[RawClient]:
    reader, writer = await asyncio.open_connection(LOCAL, port)
    client = RawClient(reader, writer)
    try:
        yield client
    finally:
        client.close()


def statuses(answers: bytes) -> list[int]:
    """The status of each answer in what was received."""
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d{3}) ", answers)]


def memory_mb(pid: int, which: str = "VmRSS") -> float:
    """The memory that the process has in use; VmHWM: the most that it ever had."""
    found = re.search(rf"{which}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024
