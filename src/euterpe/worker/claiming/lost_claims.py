"""Claims whose answers were lost: the database may have given this worker jobs that it does not know of.

Nobody would run them before their leases are over, they would have cost an attempt, and with one attempt they would go
to the dead letter unrun. So the worker asks what it holds, and gives back what it never saw.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from euterpe.model.errors import StoreUnavailable

log = logging.getLogger("euterpe.worker")

LOOKS_S: Final = (0.0, 1.0)
"""Twice: a claim that the server was still at may be committed after its connection is gone."""
TRIES: Final = 10
"""Claims wait for a look. If the store refuses it again and again, they go on without it. A store that is away refuses
nothing: it is waited for, until the leases of what was lost are over."""

ReleaseUnbegun = Callable[[str, Collection[tuple[str, int]]], Awaitable[int]]
"""`Sweeps.release_unbegun`."""


class LostClaims:
    """While a look is due nothing may be claimed: what comes from a claim that is under way is not known either."""

    def __init__(
        self,
        release: ReleaseUnbegun | None,
        worker_id: str,
        known: Callable[[], Collection[tuple[str, int]]],
        lease_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`known`: the claims that the worker has, by job_id and claim_version."""
        self._release = release
        self._worker_id = worker_id
        self._known = known
        self._lease_s = lease_s
        self._clock = clock
        self._since = 0.0
        self._looks_at: list[float] = []
        self._tries = 0
        self.is_looking = False
        """A second look beside the first would not know what is claimed after the first is over."""

    def suspect(self) -> None:
        """A claim has ended in an error."""
        if self._release is not None:
            self._since = now = self._clock()
            self._looks_at = [now + pause_s for pause_s in LOOKS_S]
            self._tries = 0

    def is_due(self, *, stopping: bool = False) -> bool:
        """A worker that stops does not wait for the second look."""
        return bool(self._looks_at) and (stopping or self._looks_at[0] <= self._clock())

    def forget(self) -> None:
        self._looks_at = []

    async def look(self) -> None:
        """Give back what nobody here knows. What it raises leaves it due, for a while."""
        if self._release is None:
            return
        self.is_looking = True
        try:
            count = await self._release(self._worker_id, self._known())
        except StoreUnavailable:
            if self._clock() - self._since > self._lease_s:
                self.forget()
            raise
        except Exception:
            self._tries += 1
            if self._tries == TRIES:
                self.forget()
            raise
        finally:
            self.is_looking = False
        self._looks_at = [at for at in self._looks_at[1:] if at > self._clock()]
        if count:
            log.warning("%d jobs of a claim whose answer was lost were given back unbegun", count)
