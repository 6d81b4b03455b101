"""The leases a worker holds, in memory that it shares with its lease keeper.

The worker writes a slot when it claims, marks it when the handler begins and clears it when the attempt is over: a
memory write, no message. The keeper reads the table at every beat, and once more when the worker is gone. A slot read
in the middle of a write names a lease that does not exist, which the fence of the heartbeat refuses.

A keeper loads this module and no other of ours until a lease lasts, so it imports little.
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from euterpe.model.job import Lease

SHORT_LEASE_US: Final = 10_000_000
"""A lease below this may run out while the keeper's process starts."""
CLEAN_EXIT: Final = b"end\n"
"""What a worker that ends by intent tells its keeper; one that died has told nothing."""
_SLOT: Final = struct.Struct("<B7x256sqdq88s")
"""A job's id has at most 256 bytes: in Redis lists other programs choose theirs. The last field is a token.
A shorter text is padded with zeros, a longer one cut."""
_SLOT_SIZE: Final = _SLOT.size
_KEEP_UNTIL: Final = struct.Struct("<d")
_KEEP_UNTIL_AT: Final = struct.calcsize("<B7x256sq")
_FREE: Final = 0
_CLAIMED: Final = 1
_BEGUN: Final = 2


class Entry(NamedTuple):
    """A lease of `ttl_us` to renew until `keep_until` (monotonic seconds), and whether its handler has begun."""

    lease: Lease
    keep_until: float
    ttl_us: int
    begun: bool


class LeaseTable:
    """Fixed slots in a shared file without a name; `descriptor` is handed to the keeper."""

    def __init__(self, slots: int, descriptor: int | None = None) -> None:
        self.slots = slots
        self.worker_id: str | None = None
        """Whose leases these are. A control plane asks for it beside the token."""
        self.descriptor = _unnamed_file(slots * _SLOT_SIZE) if descriptor is None else descriptor
        self._memory = mmap.mmap(self.descriptor, slots * _SLOT_SIZE)
        self._free = list(range(slots - 1, -1, -1))
        self._closed = False

    def hold(self, lease: Lease, keep_until: float, ttl_us: int, *, begun: bool = True) -> int:
        slot = self._free.pop()
        job_id, token = lease.job_id.encode(), b"" if lease.token is None else lease.token.encode()
        flag = _BEGUN if begun else _CLAIMED
        _SLOT.pack_into(self._memory, slot * _SLOT_SIZE, flag, job_id, lease.claim_version, keep_until, ttl_us, token)
        return slot

    def begin(self, slot: int) -> None:
        """Marked before the handler's first line: whoever is killed by it has begun."""
        self._memory[slot * _SLOT_SIZE] = _BEGUN

    def keep(self, slot: int, until: float) -> None:
        """Renewed until this moment and no longer."""
        _KEEP_UNTIL.pack_into(self._memory, slot * _SLOT_SIZE + _KEEP_UNTIL_AT, until)

    def let_expire(self, slot: int) -> None:
        """Renewed no more, and still known as begun."""
        self.keep(slot, 0.0)

    def release(self, slot: int) -> None:
        self.release_all([slot])

    def release_all(self, slots: list[int]) -> None:
        if not self._closed:
            memory = self._memory
            for slot in slots:
                memory[slot * _SLOT_SIZE] = _FREE
            self._free += slots

    def held(self) -> Iterator[tuple[int, bytes, int, float, int, bytes]]:
        """The keeper's view: flag, job, version, until when it is kept, its length, and its token."""
        memory = self._memory[:]
        for at, flag in enumerate(memory[::_SLOT_SIZE]):
            if flag != _FREE:
                yield _SLOT.unpack_from(memory, at * _SLOT_SIZE)

    def entries(self) -> Iterator[Entry]:
        """The same as leases."""
        from euterpe.model.job import Lease

        for flag, job_id, version, keep_until, ttl_us, token in self.held():
            shown = token.rstrip(b"\0").decode() or None
            lease = Lease(job_id.rstrip(b"\0").decode(), version, 0, shown, self.worker_id)
            yield Entry(lease, keep_until, ttl_us, flag == _BEGUN)

    def close(self) -> None:
        if self._closed:
            return  # A second close would hit whoever got the same descriptor since.
        self._closed = True
        self._memory.close()
        os.close(self.descriptor)


def _unnamed_file(size: int) -> int:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("euterpe-leases")
    else:
        import tempfile

        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor
