"""Which messages this process has in hand, and which one stands for which job. Memory only: Redis has the messages."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from euterpe.wakeups.stream_messages import Address, HeldMessage

KNOWN_LIMIT: Final = 20_000
RUNNING_LIMIT: Final = 10_000
"""Messages of running jobs; what is read past that stays pending in Redis until somebody takes it over."""


class MessageRegistry:
    """Messages of jobs that wait, of jobs that run, and the last known address of a job's message."""

    def __init__(self) -> None:
        self.waiting: dict[Address, HeldMessage] = {}
        self.running: dict[Address, HeldMessage] = {}
        self._addresses: OrderedDict[str, Address] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self.waiting or self.running)

    def all(self) -> list[HeldMessage]:
        return [*self.waiting.values(), *self.running.values()]

    def take(self, messages: Iterable[HeldMessage]) -> list[HeldMessage]:
        """Returns those that were not in hand already."""
        fresh = [m for m in messages if m.key not in self.waiting and m.key not in self.running]
        for message in fresh:
            self.waiting[message.key] = message
            if message.note.job_id:
                self.remember(message.note.job_id, message.key)
        return fresh

    def remember(self, job_id: str, address: Address) -> None:
        self._addresses[job_id] = address
        self._addresses.move_to_end(job_id)
        while len(self._addresses) > KNOWN_LIMIT:
            self._addresses.popitem(last=False)

    def address_of(self, job_id: str) -> Address | None:
        return self._addresses.get(job_id)

    def holds(self, address: Address, job_id: str) -> bool:
        held = self.waiting.get(address) or self.running.get(address)
        return held is not None and held.note.job_id == job_id

    def runs(self, messages: Iterable[HeldMessage]) -> None:
        """Their jobs were claimed: the messages stay pending until those end."""
        for message in messages:
            if self.waiting.pop(message.key, None) is not None and len(self.running) < RUNNING_LIMIT:
                self.running[message.key] = message

    def waits_again(self, messages: Iterable[HeldMessage], now: float) -> None:
        """Their jobs came back: they wake somebody once more."""
        for message in messages:
            if self.running.pop(message.key, None) is not None:
                self.waiting[message.key] = message._replace(read_at=now)

    def forget(self, addresses: Iterable[Address]) -> None:
        for address in addresses:
            held = self.waiting.pop(address, None) or self.running.pop(address, None)
            if held is not None and self._addresses.get(held.note.job_id) == address:
                del self._addresses[held.note.job_id]
