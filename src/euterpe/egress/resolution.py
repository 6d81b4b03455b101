"""Turns a host name into addresses, once per call: the answer that is checked is the answer that is used.

The system's resolver blocks, so it runs in threads of its own: a name server that hangs must not take the
threads that the rest of the process needs.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Protocol

from euterpe.egress.errors import EgressFailed, EgressFailure

_LOOKUP_THREADS: Final = 16
_MAX_CACHED_NAMES: Final = 2048


class Resolver(Protocol):
    """Knows the addresses of a name. It need not judge them: whoever connects does."""

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        """Addresses in the order to try them, at least one. Raises EgressFailed when there are none."""

    async def close(self) -> None:
        """Release threads and sockets."""


class SystemResolver:
    """The operating system's resolver (hosts file, search domains and all)."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_LOOKUP_THREADS, thread_name_prefix="euterpe-dns")

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        loop = asyncio.get_running_loop()
        try:
            answers = await loop.run_in_executor(self._threads, _look_up, host, port)
        except (OSError, UnicodeError) as error:
            raise EgressFailed(EgressFailure.NAME, f"{host} could not be resolved ({_short(error)})") from None
        if not answers:
            raise EgressFailed(EgressFailure.NAME, f"{host} has no address")
        return answers

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


@dataclass(slots=True)
class _Entry:
    answer: asyncio.Future[tuple[str, ...]]
    expires_at: float


class CachingResolver:
    """Keeps each answer for a few seconds and asks once for all who wait, so that one slow name server holds
    one thread and not all of them. Failures are kept for the same time.
    """

    def __init__(self, inner: Resolver, *, ttl_s: float = 5.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._inner = inner
        self._ttl_s = ttl_s
        self._clock = clock
        self._entries: dict[tuple[str, int], _Entry] = {}
        self._lookups: set[asyncio.Task[None]] = set()

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        key = (host, port)
        entry = self._entries.get(key)
        if entry is None or entry.expires_at <= self._clock():
            entry = self._ask(key)
        # Shielded: one caller's deadline must not cancel the lookup that others wait for.
        return await asyncio.shield(entry.answer)

    async def close(self) -> None:
        for lookup in self._lookups:
            lookup.cancel()
        await asyncio.gather(*self._lookups, return_exceptions=True)
        for entry in self._entries.values():
            entry.answer.cancel()  # a lookup that was cancelled before its first step never told its waiters
        await self._inner.close()

    def _ask(self, key: tuple[str, int]) -> _Entry:
        if len(self._entries) >= _MAX_CACHED_NAMES:
            self._drop_expired()
        entry = _Entry(asyncio.get_running_loop().create_future(), expires_at=float("inf"))
        self._entries[key] = entry
        lookup = asyncio.create_task(self._look_up(key, entry))
        self._lookups.add(lookup)
        lookup.add_done_callback(self._lookups.discard)
        return entry

    async def _look_up(self, key: tuple[str, int], entry: _Entry) -> None:
        try:
            entry.answer.set_result(await self._inner.resolve(*key))
        except EgressFailed as error:
            entry.answer.set_exception(error)
            entry.answer.exception()  # taken here, so that a failure nobody waits for any more makes no noise
        finally:
            entry.expires_at = self._clock() + self._ttl_s
            if not entry.answer.done():
                entry.answer.cancel()
                self._entries.pop(key, None)

    def _drop_expired(self) -> None:
        now = self._clock()
        for key in [key for key, entry in self._entries.items() if entry.expires_at <= now]:
            del self._entries[key]
        while len(self._entries) >= _MAX_CACHED_NAMES:
            del self._entries[next(iter(self._entries))]


def _look_up(host: str, port: int) -> tuple[str, ...]:
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    # A scoped address keeps its scope in the text, so that the check sees it (and refuses it).
    found = [_address_text(info[4]) for info in answers]
    return tuple(dict.fromkeys(found))


def _address_text(sockaddr: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]) -> str:
    address = str(sockaddr[0])
    scope = sockaddr[3] if len(sockaddr) == 4 else 0
    return f"{address}%{scope}" if scope and "%" not in address else address


def _short(error: Exception) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else type(error).__name__
