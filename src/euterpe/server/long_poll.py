"""One claim for many: HTTP workers that wait for the same work share the statements that look for it.

Workers that name the same queues and types form a group. The group claims for all who wait in one transaction, each
job with a token of its own, at once when work is announced and otherwise every few hundred milliseconds, so that a
hundred waiting workers cost no more than one. Who left while a claim was under way gets nothing: what was claimed for
it is released unharmed.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from contextvars import Context  # a task that outlives its request carries none of its keys
from typing import Final, NamedTuple

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Released
from euterpe.model.errors import StoreUnavailable
from euterpe.model.job import Claim
from euterpe.ports import Wakeups
from euterpe.server.http.problems import Refusal

CLAIM_LIMIT: Final = 1000
IDLE_GROWTH: Final = 1.5
LINGER_S: Final = 5.0
"""A group without waiters stays for the next one: busy workers come back within milliseconds."""
RELEASE_TRIES: Final = 3
GROUPS_AT_FULL_PACE: Final = 50
"""Beyond so many groups each one polls less often, so that all of them together cost no more than these. Announced work
is looked for at once whatever their number."""
GROUP_LIMIT: Final = 1_000

ClaimFor = Callable[[ClaimRequest, Sequence[str]], Awaitable[list[Claim]]]
Release = Callable[[Sequence[Report]], Awaitable[object]]
GroupKey = tuple[tuple[str, ...], tuple[str, ...] | None]

log: Final = logging.getLogger("euterpe.api")


class Waiter:
    """A worker's open claim request: it wants so many jobs that begin at once, and `ahead` more that can wait there, of
    these types."""

    __slots__ = ("ahead", "ahead_types", "future", "gone", "late", "wants", "worker_id")

    def __init__(self, worker_id: str, wants: int, ahead: int = 0, ahead_types: Iterable[str] = ()) -> None:
        self.worker_id = worker_id
        self.wants = wants
        self.ahead = ahead
        self.ahead_types = frozenset(ahead_types)
        self.future: asyncio.Future[list[Claim]] = asyncio.get_running_loop().create_future()
        self.gone = False
        self.late = False

    def leave(self) -> None:
        """The client went away."""
        self.gone = True
        self.answer([])

    def answer(self, claims: list[Claim]) -> bool:
        """Whether somebody is still there to take them."""
        if self.future.done():
            return False
        self.future.set_result(claims)
        return True


class ClaimPlaces(NamedTuple):
    """Who gets the jobs of a claim, in its order: first those that begin at once, then those that can wait."""

    at_once: list[Waiter]
    ahead: list[Waiter]
    ahead_types: tuple[str, ...]

    @property
    def all(self) -> list[Waiter]:
        return self.at_once + self.ahead


class LongPoll:
    """All groups of one process."""

    def __init__(
        self,
        claim_for: ClaimFor,
        release: Release,
        wakeups: Wakeups,
        *,
        lease_ttl_us: int,
        poll_s: tuple[float, float],
        rng: random.Random | None = None,
    ) -> None:
        self.claim_for = claim_for
        self.wakeups = wakeups
        self.lease_ttl_us = lease_ttl_us
        self.poll_s = poll_s
        self.rng = rng or random.Random()
        self._release = release
        self._groups: dict[GroupKey, _Group] = {}
        self._releases: set[asyncio.Task[None]] = set()
        self.draining = False

    async def claim(self, waiter: Waiter, queues: Sequence[str], types: Sequence[str] | None, wait_s: float) -> None:
        """Resolves the waiter's future: with jobs, or with none when the time is up."""
        if self.draining:
            waiter.answer([])
            return
        key = (tuple(dict.fromkeys(queues)), None if types is None else tuple(sorted(set(types))))
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= GROUP_LIMIT:
                detail = f"workers wait for {GROUP_LIMIT} different sets of queues and types here already"
                raise Refusal(503, "too_many_groups", detail, headers=((b"retry-after", b"5"),))
            group = self._groups[key] = _Group(key, self)
        group.join(waiter)
        timer = asyncio.get_running_loop().call_later(wait_s, group.expire, waiter)
        try:
            await waiter.future
        finally:
            timer.cancel()
            group.part(waiter)

    @property
    def pace(self) -> float:
        """By how much polls are stretched."""
        return max(1.0, len(self._groups) / GROUPS_AT_FULL_PACE)

    def wake_all(self) -> None:
        """Work may have appeared anywhere."""
        for group in self._groups.values():
            group.wake()

    def _wake_those_who_want(self, queues: Set[str]) -> None:
        for group in self._groups.values():
            if not queues.isdisjoint(group.queues):
                group.wake()

    def drain(self) -> None:
        """Answer everybody who waits with nothing, now and from here on: the process is about to stop."""
        self.draining = True
        for group in list(self._groups.values()):
            group.dismiss()

    async def close(self) -> None:
        self.drain()
        for group in list(self._groups.values()):
            await group.close()
        await asyncio.gather(*self._releases, return_exceptions=True)

    def forget(self, key: GroupKey) -> None:
        self._groups.pop(key, None)

    def give_back(self, claims: Sequence[Claim]) -> None:
        """Release what nobody took. If that fails the lease runs out, and the sweep does it."""
        if claims:
            task = asyncio.get_running_loop().create_task(self._give_back(claims))
            self._releases.add(task)
            task.add_done_callback(self._releases.discard)

    async def _give_back(self, claims: Sequence[Claim]) -> None:
        for attempt in range(RELEASE_TRIES):
            try:
                await self._release([Report(claim, Released()) for claim in claims])
            except StoreUnavailable:
                await asyncio.sleep(0.1 * 2**attempt)
            else:
                self._wake_those_who_want({claim.job.queue for claim in claims})
                return
        log.warning("claims could not be released; their leases will expire", extra={"count": len(claims)})


class _Group:
    """Waiters for the same queues and types, and the loop that serves them while there are any."""

    def __init__(self, key: GroupKey, coordinator: LongPoll) -> None:
        self._key = key
        self._coordinator = coordinator
        self._waiters: dict[Waiter, None] = {}
        self._claiming: frozenset[Waiter] = frozenset()
        self._woken = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._serve(), context=Context())

    @property
    def queues(self) -> tuple[str, ...]:
        return self._key[0]

    def join(self, waiter: Waiter) -> None:
        self._waiters[waiter] = None
        self._woken.set()

    def part(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter, None)

    def wake(self) -> None:
        if self._waiters:
            self._woken.set()

    def expire(self, waiter: Waiter) -> None:
        """Time is up. Who has a claim under way, or had none yet, is answered after it."""
        waiter.late = True
        if waiter not in self._claiming and not self._woken.is_set():
            waiter.answer([])

    def dismiss(self) -> None:
        for waiter in list(self._waiters):
            if waiter not in self._claiming:
                waiter.answer([])
            waiter.late = True
        self._woken.set()

    async def close(self) -> None:
        await asyncio.wait([self._task])

    async def _serve(self) -> None:
        soon_s, later_s = self._coordinator.poll_s
        idle_s = soon_s
        unsubscribe = self._coordinator.wakeups.subscribe(self._woken.set, self._key[0])
        try:
            while not (self._coordinator.draining and not self._waiters):
                self._woken.clear()
                places = self._places()
                self._answer_late(self._waiters.keys() - places.all)
                if places.all:
                    taken = await self._claim(places)
                    if taken and taken >= len(places.at_once):
                        idle_s = soon_s
                        continue  # There may be more where these came from.
                    pause_s = idle_s * self._coordinator.pace * self._coordinator.rng.uniform(0.75, 1.25)
                else:
                    pause_s = LINGER_S
                woken = await self._pause(pause_s)
                if not woken and not self._waiters:
                    return
                idle_s = soon_s if woken else min(idle_s * IDLE_GROWTH, later_s)
        finally:
            unsubscribe()
            self._coordinator.forget(self._key)
            for waiter in self._waiters:  # only a loop that was cancelled leaves any
                waiter.future.cancel()

    def _places(self) -> ClaimPlaces:
        """A place for each job that could be taken now: one for everybody, then a second one, and so on. What waits
        for a place of its own goes before what another one could have ahead."""
        open_waiters = [w for w in self._waiters if not w.future.done()]
        at_once = _in_turn([(w, w.wants) for w in open_waiters], CLAIM_LIMIT)
        ahead = _in_turn([(w, w.ahead) for w in open_waiters], CLAIM_LIMIT - len(at_once))
        if not ahead:
            return ClaimPlaces(at_once, [], ())
        # A job that can wait must be able to at any of them: nobody knows yet who gets it.
        shared = frozenset.intersection(*(w.ahead_types for w in open_waiters if w.ahead))
        return ClaimPlaces(at_once, ahead if shared else [], tuple(sorted(shared)))

    async def _claim(self, places: ClaimPlaces) -> int:
        queues, types = self._key
        slots = places.all
        self._claiming = frozenset(slots)
        request = ClaimRequest(
            worker_id=slots[0].worker_id,
            limit=len(places.at_once),
            prefetch=len(places.ahead),
            prefetch_types=places.ahead_types,
            queues=queues,
            types=types,
            lease_ttl_us=self._coordinator.lease_ttl_us,
        )
        try:
            claims = await self._coordinator.claim_for(request, [w.worker_id for w in slots])
        except Exception as error:  # noqa: BLE001  # whatever it was, everybody who waits must get it
            for waiter in self._claiming:
                if not waiter.future.done():
                    waiter.future.set_exception(error)
            return 0
        finally:
            asked, self._claiming = self._claiming, frozenset()
        self._distribute(slots, asked, claims)
        return len(claims)

    def _distribute(self, slots: Sequence[Waiter], asked: frozenset[Waiter], claims: Sequence[Claim]) -> None:
        """Each claim to a place of the worker whose name its row has: a job that could not be read leaves a gap. A
        claim that asked twice may bring one more to a worker than it has places; that goes back."""
        places: dict[str | None, list[Waiter]] = {}
        for waiter in reversed(slots):
            places.setdefault(waiter.worker_id, []).append(waiter)
        shares: dict[Waiter, list[Claim]] = {}
        unwanted: list[Claim] = []
        for claim in claims:
            if own_places := places[claim.job.worker_id]:
                shares.setdefault(own_places.pop(), []).append(claim)
            else:
                unwanted.append(claim)
        for waiter, own in shares.items():
            if not waiter.answer(own):
                unwanted += own
        self._coordinator.give_back(unwanted)
        self._answer_late(asked)

    def _answer_late(self, waiters: Iterable[Waiter]) -> None:
        for waiter in waiters:
            if waiter.late:
                waiter.answer([])

    async def _pause(self, pause_s: float) -> bool:
        """Until there is a reason to look again; True when somebody said so."""
        if self._woken.is_set():
            return True
        try:
            async with asyncio.timeout(pause_s):
                await self._woken.wait()
        except TimeoutError:
            return False
        return True


def _in_turn(wanted: Sequence[tuple[Waiter, int]], limit: int) -> list[Waiter]:
    """Everybody once, then everybody who wants a second one, and so on."""
    places: list[Waiter] = []
    for turn in range(max((count for _, count in wanted), default=0)):
        if len(places) >= limit:
            break
        places += [waiter for waiter, count in wanted if count > turn]
    return places[:limit]
