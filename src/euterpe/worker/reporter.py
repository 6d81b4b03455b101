"""The worker's reporter: where the contexts of its attempts hand in their news, from the loop or from a thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from euterpe.model.claims.exchange import Advance
from euterpe.model.errors import EuterpeError
from euterpe.model.job import Claim
from euterpe.model.submission import Submission
from euterpe.worker.context import NO_STATE, Sent
from euterpe.worker.progress import NewsLine
from euterpe.worker.spawning import Spawns

Spawn = Callable[[Claim, Sequence[Submission]], Awaitable[list[str]]]
MakeSubmission = Callable[..., Submission]


class WorkerReporter:
    """One for all attempts of a worker; a news line for each attempt that has something to say."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        advance: Callable[[Advance], Awaitable[None]],
        spawn: Spawn | None,
        make_submission: MakeSubmission | None,
        state: Any = NO_STATE,
    ) -> None:
        self._loop = loop
        self._advance = advance
        self._spawn = spawn
        self._make_submission = make_submission
        self.state = state
        self._lines: dict[str, NewsLine] = {}
        self._spawns: dict[str, Spawns] = {}

    def tell(self, news: Advance) -> Sent[None]:
        if self._on_loop():
            return Sent(self._line_of(news.claim).tell(news))

        async def tell() -> None:
            await self._line_of(news.claim).tell(news)

        return Sent(asyncio.run_coroutine_threadsafe(tell(), self._loop))

    def spawn(self, claim: Claim, submission: Submission) -> Sent[str]:
        if self._spawn is None:
            raise EuterpeError("this worker cannot spawn jobs: it has no queue to submit to")
        spawn = self._spawn

        async def one() -> str:
            return (await spawn(claim, [submission]))[0]

        if self._on_loop():
            return self._spawns_of(claim).begin(one())
        answer: concurrent.futures.Future[str] = concurrent.futures.Future()
        sent = Sent(answer)
        # Begun before the thread's own end is heard of: both go through the loop, in this order.
        self._loop.call_soon_threadsafe(lambda: self._spawns_of(claim).begin(one(), sent, answer))
        return sent

    def make_submission(self, what: Any, payload: Any = None, /, **options: Any) -> Submission:
        if self._make_submission is None:
            raise EuterpeError("this worker cannot spawn jobs: it has no queue to submit to")
        return self._make_submission(what, payload, **options)

    def has_news(self, claim: Claim) -> bool:
        if not (self._lines or self._spawns):
            return False
        name = claim.lease.attempt_id
        return name in self._lines or name in self._spawns

    async def delivered(self, claim: Claim) -> BaseException | None:
        """Wait until what this attempt told and spawned is written: a settle that overtook it would make it stale.
        Returns the error of a spawn that the handler never looked at."""
        name = claim.lease.attempt_id
        if (line := self._lines.get(name)) is not None:
            await line.delivered()
        return None if (spawns := self._spawns.get(name)) is None else await spawns.over()

    def is_spawning(self, claim: Claim) -> bool:
        spawns = self._spawns.get(claim.lease.attempt_id)
        return spawns is not None and bool(spawns.pending)

    def forget(self, claim: Claim) -> None:
        """The attempt is over."""
        if self._lines and (line := self._lines.pop(claim.lease.attempt_id, None)) is not None:
            line.drop()
        if self._spawns and (spawns := self._spawns.pop(claim.lease.attempt_id, None)) is not None:
            spawns.drop()

    def _line_of(self, claim: Claim) -> NewsLine:
        name = claim.lease.attempt_id
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = NewsLine(self._advance)
        return line

    def _spawns_of(self, claim: Claim) -> Spawns:
        return self._spawns.setdefault(claim.lease.attempt_id, Spawns())

    def _on_loop(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False
