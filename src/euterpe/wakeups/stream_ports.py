"""What wake-ups over Redis Streams ask of others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from euterpe.model.state import State


class JobsToAnnounce(Protocol):
    """The truth; `store.announcing.WaitingJobs` is the one."""

    async def states_of(self, job_ids: Collection[str]) -> dict[str, State]:
        """Of those that are there."""
        ...

    async def waiting_since(self, queues: Collection[str], age_us: int, limit: int) -> Sequence[tuple[str, int, str]]:
        """(queue, priority, job_id) of jobs that wait for longer than this."""
        ...


class Ready(Protocol):
    """A job that was stored and can be claimed; a store's answer is one."""

    @property
    def job_id(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def priority(self) -> str: ...


class SecondaryWakeups(Protocol):
    """Other wake-ups, for what Redis never carries: webhook events, jobs of a caller's own transaction."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    def announce(self, queues: Iterable[str]) -> None: ...
    def subscribe(self, wake: Callable[[], None], queues: Collection[str]) -> Callable[[], None]: ...
