"""The producer: looks through a folder again and again, and submits a job for every version of a file.

Whether a version was submitted before is the database's to say: its job has an idempotency key made from path, size and
time of change. So it does not matter how many producers look, or when one is killed. What this process has seen itself
it does not ask for again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from euterpe.model.duration import LONGEST_US
from euterpe.model.errors import IdempotencyConflict, InvalidInput
from euterpe.model.submitting.submission import Submission
from euterpe.ports import RateLimit, Store
from euterpe.producer.file_watcher import Hint, watch
from euterpe.producer.pacing import Unlimited
from euterpe.producer.stable_files import ChangingFiles
from euterpe.producer.tree import FoundFile, Look, Tree
from euterpe.runtime.outage import Outage
from euterpe.runtime.wait import happens_within

log: Final = logging.getLogger("euterpe.producer")

BATCH: Final = 250
PROGRESS_EVERY_S: Final = 5.0
MakeJob = Callable[[FoundFile], Submission]
"""The job of a file, without an idempotency key. Raises InvalidInput where a file can be none."""


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    scan_interval_s: float = 10.0
    settle_s: float = 2.0
    per_s: float = 0.0
    """The rate that `RateLimit` keeps: a batch takes a quarter of a second of it at most. 0: none is kept."""
    watches: bool = True


@dataclass(slots=True)
class ProducerCounts:
    """What a producer has done since it started."""

    enqueued: int = 0
    known: int = 0
    refused: int = 0


class Producer:
    """Runs until it is told to stop. An outage of the database is waited out."""

    def __init__(
        self,
        tree: Tree,
        make_job: MakeJob,
        store: Store,
        settings: ProducerSettings,
        rate: RateLimit | None = None,
        recipe: str = "",
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`recipe`: what is done with a file. With another one, files that are known become jobs again."""
        self._tree = tree
        self._recipe = recipe
        self._make_job = make_job
        self._store = store
        self._settings = settings
        self._rate = rate or Unlimited()
        self._batch = BATCH if not settings.per_s else max(1, min(BATCH, int(settings.per_s / 4)))
        self._settling = ChangingFiles(settings.settle_s, clock_s)
        self._done: set[bytes] = set()
        self._hints: set[Hint] = set()
        self._news = asyncio.Event()
        self._outage = Outage(log, "the producer")
        self._oddities = (0, 0, 0)
        self._said_at = 0.0
        self.counts = ProducerCounts()

    async def run(self, stop: asyncio.Event) -> None:
        watching = asyncio.create_task(self._watch(stop))
        waking = asyncio.create_task(self._wake_at(stop))
        try:
            scan_at = 0.0
            while not stop.is_set():
                if time.monotonic() >= scan_at:
                    await self.scan(stop)
                    scan_at = time.monotonic() + self._settings.scan_interval_s
                else:
                    await self._look_at_hints(stop)
                await self._sleep(scan_at, stop)
        finally:
            for task in (watching, waking):
                task.cancel()
            await asyncio.wait((watching, waking))

    async def scan(self, stop: asyncio.Event) -> None:
        """One look at the whole tree."""
        self._hints.clear()
        try:
            look = await asyncio.to_thread(self._tree.walk)
        except OSError as error:
            log.warning("the folder cannot be read; looking again later", extra={"error_code": type(error).__name__})
            return
        self._log_oddities(look)
        self._settling.keep_only(file.path for file in look.files)
        # What is gone from the tree need not be remembered: its key is still there.
        keys = {self._key(file): file for file in look.files}
        self._done &= keys.keys()
        await self._take(((key, file) for key, file in keys.items() if key not in self._done), len(look.files), stop)

    # --- between scans --------------------------------------------------------------------------------

    async def _look_at_hints(self, stop: asyncio.Event) -> None:
        hinted, self._hints = self._hints, set()
        hinted |= {(path.rpartition("/")[0], False) for path in self._settling.paths}
        found: dict[str, FoundFile] = {}
        for folder, is_deep in hinted:
            try:
                look = await asyncio.to_thread(self._tree.walk, folder, deep=is_deep)
            except OSError:
                continue  # the next scan says it
            found.update((file.path, file) for file in look.files)
        fresh = ((key, file) for file in found.values() if (key := self._key(file)) not in self._done)
        await self._take(fresh, len(found), stop)

    async def _watch(self, stop: asyncio.Event) -> None:
        if self._settings.watches:
            await watch(self._tree.root, self._hint, stop)

    def _hint(self, hints: set[Hint]) -> None:
        self._hints |= hints
        self._news.set()

    async def _wake_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._news.set()

    async def _sleep(self, scan_at: float, stop: asyncio.Event) -> None:
        """Until the next scan, the moment that a file may be still, a hint, or the end."""
        wait_s = scan_at - time.monotonic()
        settled_in_s = self._settling.next_look_s
        if settled_in_s is not None:
            wait_s = min(wait_s, settled_in_s + 0.01)
        if not stop.is_set() and wait_s > 0:
            await happens_within(wait_s, self._news)
        self._news.clear()

    # --- files become jobs ----------------------------------------------------------------------------

    async def _take(self, fresh: Iterable[tuple[bytes, FoundFile]], seen: int, stop: asyncio.Event) -> None:
        keys = {file: key for key, file in fresh}
        still = self._settling.take_still(keys)
        before = self.counts.enqueued
        for at in range(0, len(still), self._batch):
            batch = still[at : at + self._batch]
            await self._submit_batch({keys[file]: file for file in batch}, stop)
            if stop.is_set():
                return
            self._progress(at + len(batch), len(still))
        if self.counts.enqueued > before:
            log.info(
                "%d files seen, %d jobs enqueued, %d files are still changing",
                seen,
                self.counts.enqueued - before,
                len(self._settling),
            )

    async def _submit_batch(self, batch: dict[bytes, FoundFile], stop: asyncio.Event) -> None:
        """Until every one of them is stored, known or refused."""
        while batch and not stop.is_set():
            try:
                wait_s = await self._rate.take(len(batch))
                if wait_s and await happens_within(wait_s, stop):
                    return
                unused, error = await self._try_batch(batch)
                await self._rate.give_back(unused)
            except Exception as failure:  # noqa: BLE001  # the rate is kept in the database too
                error = failure
            if error is None:
                self._outage.over()
                return
            await happens_within(self._outage.pause_after(error), stop)

    async def _try_batch(self, batch: dict[bytes, FoundFile]) -> tuple[int, Exception | None]:
        """Submits and takes out of the batch what is done with; how many were no new jobs, and what failed."""
        before = self.counts.enqueued
        asked = len(batch)
        unchanged = await asyncio.to_thread(lambda: [self._tree.is_unchanged(file) for file in batch.values()])
        submissions: dict[bytes, Submission] = {}
        for (key, file), same in zip(tuple(batch.items()), unchanged, strict=True):
            if not same:
                del batch[key]  # the next look finds what it is now
                continue
            try:
                submissions[key] = self._submission(key, file)
            except InvalidInput:
                self._refuse(key)
                del batch[key]
        answers = await asyncio.gather(
            *(self._store.submit(submission) for submission in submissions.values()), return_exceptions=True
        )
        failed: Exception | None = None
        for key, answer in zip(submissions, answers, strict=True):
            if isinstance(answer, IdempotencyConflict):
                self.counts.known += 1  # by a producer that is configured otherwise
            elif isinstance(answer, InvalidInput):
                self._refuse(key)
            elif isinstance(answer, Exception):
                failed = answer
                continue
            elif isinstance(answer, BaseException):
                raise answer
            else:
                self.counts.known += answer.replayed
                self.counts.enqueued += not answer.replayed
            self._done.add(key)
            del batch[key]
        return asked - (self.counts.enqueued - before), failed

    def _submission(self, key: bytes, file: FoundFile) -> Submission:
        made = self._make_job(file)
        return msgspec.structs.replace(made, idempotency_key=f"file:{key.hex()}", idempotency_window_us=LONGEST_US)

    def _key(self, file: FoundFile) -> bytes:
        """Of one version of a file: another one after every change that the file system can tell."""
        said = f"{self._tree.root}\0{file.path}\0{file.size}\0{file.mtime_ns}\0{self._recipe}"
        return hashlib.sha256(said.encode(errors="surrogateescape")).digest()

    def _refuse(self, key: bytes) -> None:
        self.counts.refused += 1
        self._done.add(key)
        log.warning("a file cannot become a job: its name or its job is not valid", extra={"count": 1})

    # --- telling --------------------------------------------------------------------------------------

    def _progress(self, done: int, total: int) -> None:
        """A line now and then while a long list is worked off."""
        now = time.monotonic()
        if done < total and now - self._said_at > PROGRESS_EVERY_S:
            self._said_at = now
            log.info("%d of %d files looked at, %d jobs enqueued", done, total, self.counts.enqueued)

    def _log_oddities(self, look: Look) -> None:
        """Once for as long as they stay the same."""
        unreadable, links_out, odd_names = self._oddities
        if look.unreadable > unreadable:
            log.warning("%d folders cannot be read; their files are left out", look.unreadable)
        if look.links_out > links_out:
            log.warning("%d symbolic links lead out of the folder and are refused", look.links_out)
        if look.odd_names > odd_names:
            log.warning("%d names are no UTF-8 and are left out", look.odd_names)
        self._oddities = (look.unreadable, look.links_out, look.odd_names)
