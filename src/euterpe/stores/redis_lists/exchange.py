"""A worker's exchange with Redis lists: claims, heartbeats, progress and outcomes, each in one script."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from euterpe.model.claims.exchange import ClaimRequest, HeartbeatReply, ProgressUpdate
from euterpe.model.claims.outcome import Settlement, stages_unfinished, unprocessable_row
from euterpe.model.job import Claim, JobRow, Lease
from euterpe.model.state import State, check_advance
from euterpe.model.submitting.submission import EXECUTION_TIMEOUT_US, LIFETIME_US, OVERRUN_US, VISIBILITY_US
from euterpe.ports import Clock
from euterpe.stores.redis_lists.commands import ADVANCE, CLAIM_ONE, HEARTBEAT, HMGET, ID_IN, TURN
from euterpe.stores.redis_lists.entry import ForeignJobs, Rows, UnreadableEntry
from euterpe.stores.redis_lists.scripts import Argument, RedisScripts, key_taken
from euterpe.stores.redis_lists.watch import ListWatch

log = logging.getLogger("euterpe.store")

LIMITS: Final = (VISIBILITY_US, EXECUTION_TIMEOUT_US, OVERRUN_US)
FROZEN_HEARTBEAT_MS: Final = 600_000
"""How long a heartbeat key lasts in real time where a test's clock stands still."""
STATES: Final = {str(state).encode(): state for state in State}
_STAGE, _NO_LIST = b"stage:", b"no_list:"
_read_lone: Final = msgspec.msgpack.Decoder(list[Any]).decode
"""What `claim_one.lua` answers."""
_read_claims: Final = msgspec.msgpack.Decoder(list[list[Any]]).decode
"""The claims of `turn.lua`, where they are not large."""


class ListExchange:
    """Settles and claims for workers."""

    def __init__(
        self, scripts: RedisScripts, watch: ListWatch, rows: Rows, foreign: ForeignJobs, clock: Clock | None
    ) -> None:
        self._scripts = scripts
        self._watch = watch
        self._rows = rows
        self._foreign = foreign
        self._clock = clock
        self._told: set[str] = set()
        self._likely = 0
        """The place of the list in which a waiting worker last found a job: those before it are most often empty."""

    @property
    def foreign_attempts(self) -> int:
        """How often another program's job is tried."""
        return self._foreign.max_attempts

    @property
    def now(self) -> str:
        """The injected time; empty where Redis' own counts."""
        return "" if self._clock is None else str(self._clock())

    async def run(
        self, settlements: Sequence[Settlement], jobs: Sequence[JobRow], request: ClaimRequest | None
    ) -> tuple[list[State | None], list[Claim]]:
        """What each settlement made of its job (None: it was stale), and what was claimed."""
        states, claims, unfinished = await self._run(settlements, jobs, request)
        if unfinished:
            found = [(i, stages_unfinished(job, last)) for i, job, last in unfinished]
            again, _, _ = await self._run([s for _, s in found], [job for _, job, _ in unfinished], None)
            for (i, _), state in zip(found, again, strict=True):
                states[i] = state
        return states, claims

    async def claim_when_ready(self, request: ClaimRequest, wait_s: float) -> list[Claim]:
        """Wait at the lists' tokens for so long, and claim. The watch leaves a token for what another program
        pushes; without one it is claimed when the wait is over."""
        lists = dict.fromkeys(name for queue in request.queues for name in self._scripts.settings.lists_of(queue))
        wait = ("BLPOP", *(f"{name}:wake" for name in lists), repr(wait_s))
        types, worker_id, keys = request.types or (), request.worker_id, self._scripts.settings
        self._watch.begin(worker_id, lists)
        try:
            answer = await self._scripts.run_after(
                worker_id, wait, wait_s, CLAIM_ONE,
                self.now, worker_id, keys.processing_list(worker_id), keys.heartbeat(worker_id),
                self.heartbeat_key_ms(request.lease_ttl_us), request.lease_ttl_us, *LIMITS,
                min(self._likely, len(lists) - 1), len(types), *types, *lists,
            )  # fmt: skip
        finally:
            self._watch.end(worker_id)
        if answer is None:
            return (await self.run((), (), request))[1]
        if isinstance(answer, int):
            self._likely = answer
            return []
        self._likely, stamp, entry, kind, payload, lease, *times, visibility, timeout, run_at = _read_lone(answer)
        line = [entry, kind, payload, 1, 1, lease, *times, visibility or None, timeout or None, run_at or None]
        return await self._claims([line], request, int(stamp))

    async def settle_for_lost(self, settlements: Sequence[Settlement], jobs: Sequence[JobRow]) -> list[State | None]:
        """Settle for workers that are lost; a job whose worker lives after all is left to it."""
        arguments: list[Argument] = [self.now, 0, len(settlements)]
        for s, job in zip(settlements, jobs, strict=True):
            arguments += settlement_arguments(s, job, only_lost=True)
        _, told, _, _, _ = await self._scripts.run(TURN, *arguments, 0, "")
        return self._read_states(told, settlements, jobs)[0]

    async def _run(
        self, settlements: Sequence[Settlement], jobs: Sequence[JobRow], request: ClaimRequest | None
    ) -> tuple[list[State | None], list[Claim], list[tuple[int, JobRow, str]]]:
        plain = [
            i
            for i, s in enumerate(settlements)
            if s.state is State.COMPLETED and s.last_stage is None and s.result is not None
        ]
        others = [] if len(plain) == len(settlements) else sorted(set(range(len(settlements))) - set(plain))
        arguments: list[Argument] = [self.now, len(plain)]
        for i in plain:
            s = settlements[i]
            arguments += (s.job_id, s.claim_version, s.result or b"")
        arguments.append(len(others))
        for i in others:
            arguments += settlement_arguments(settlements[i], jobs[i])
        arguments += self._request_arguments(request)
        stamp, said, packed, odd, has_more = await self._scripts.run(TURN, *arguments)
        if odd:
            self._log_odd_entries(odd)
        while has_more and not packed:
            # A short answer would tell the worker that the queue is empty.
            stamp, _, packed, odd, has_more = await self._scripts.run(
                TURN, self.now, 0, 0, *self._request_arguments(request)
            )
            self._log_odd_entries(odd)
        told: list[bytes] = said
        if others:
            by_place = dict(zip((*plain, *others), said, strict=True))
            told = [by_place[i] for i in range(len(settlements))]
        states, unfinished = self._read_states(told, settlements, jobs)
        lines = packed if isinstance(packed, list) else _read_claims(packed) if packed else []
        claims = [] if request is None else await self._claims(lines, request, int(stamp))
        return states, claims, unfinished

    def _read_states(
        self, told: list[bytes], settlements: Sequence[Settlement], jobs: Sequence[JobRow]
    ) -> tuple[list[State | None], list[tuple[int, JobRow, str]]]:
        states: list[State | None] = []
        unfinished: list[tuple[int, JobRow, str]] = []
        for i, said in enumerate(told):
            state = STATES.get(said)
            states.append(state)
            if state is not None:
                continue
            if said.startswith(_STAGE):
                stage = said.removeprefix(_STAGE).decode()
                unfinished.append((i, msgspec.structs.replace(jobs[i], stage=stage), settlements[i].last_stage or ""))
            elif said.startswith(_NO_LIST):
                raise key_taken(said.removeprefix(_NO_LIST).decode())
        return states, unfinished

    def _request_arguments(self, request: ClaimRequest | None) -> list[Argument]:
        if request is None or not request.is_answerable:
            return [0, ""]
        keys = self._scripts.settings
        types = request.types or ()
        # A job of a preferred queue that cannot wait would starve behind what waits in the worker.
        prefetch = request.prefetch if len(request.queues) == 1 else 0
        short = request.prefetch_types if prefetch else ()
        arguments: list[Argument] = [
            request.limit,
            request.worker_id,
            prefetch,
            request.lease_ttl_us,
            self.heartbeat_key_ms(request.lease_ttl_us),
            *LIMITS,
            self._foreign.type,
            LIFETIME_US,
            len(types),
            *types,
            "1" if request.types is None else "0",
            len(short),
            *short,
            len(request.queues),
        ]
        for queue in request.queues:
            lists = keys.lists_of(queue)
            arguments += (queue, len(lists), *lists)
        return arguments

    def heartbeat_key_ms(self, ttl_us: int) -> int:
        ttl_ms = max(1, -(-ttl_us // 1000))
        return ttl_ms if self._clock is None else max(ttl_ms, FROZEN_HEARTBEAT_MS)

    async def _claims(self, lines: list[list[Any]], request: ClaimRequest, now: int) -> list[Claim]:
        claims: list[Claim] = []
        for line in lines:
            try:
                job = self._rows.taken(line, request.worker_id, now)
            except UnreadableEntry:
                await self._end_unreadable(line)
                continue
            claims.append(Claim(job, Lease(job.id, job.claim_version, job.lease_expires_at or 0)))
        return claims

    async def _end_unreadable(self, line: list[Any]) -> None:
        """JSON that is no job of ours: it ends alone, as a dead letter that says why."""
        job_id = (await self._scripts.run(ID_IN, line[0])).decode()
        log.error("an entry of a list cannot be read and is a dead letter", extra={"job_id": job_id})
        job = self._rows.unreadable(job_id, line)
        await self.run([unprocessable_row(job, ["entry"])], [job], None)

    def _log_odd_entries(self, odd: list[bytes]) -> None:
        for what, text in zip(odd[::2], odd[1::2], strict=True):
            if what == b"unreadable":
                log.error("an entry that is no job was moved to the dead-letter list", extra={"count": 1})
            elif what == b"long_id":
                log.error(
                    "an entry was moved to the dead-letter list because its id is longer than 256 bytes; "
                    "push it again with a shorter id",
                    extra={"count": 1},
                )
            elif what == b"copy":
                log.warning("a second entry of a job that runs or has ended was dropped", extra={"count": 1})
            elif (name := text.decode(errors="replace").partition(" holds a ")[0]) not in self._told:
                self._told.add(name)
                log.error("a list is another kind of key, and its jobs cannot be taken", extra={"queue": name})

    async def heartbeat(self, leases: Sequence[Lease], ttl_us: int) -> list[HeartbeatReply]:
        arguments: list[Argument] = [self.now, ttl_us, self.heartbeat_key_ms(ttl_us), *LIMITS]
        for lease in leases:
            arguments += (lease.job_id, lease.claim_version)
        told = await self._scripts.run(HEARTBEAT, *arguments)
        return [
            HeartbeatReply(lease, True, int(expires_at), cancel == b"1") if expires_at else HeartbeatReply(lease, False)
            for lease, (expires_at, cancel) in zip(leases, told, strict=True)
        ]

    async def check_leases(self, leases: Sequence[Lease]) -> list[HeartbeatReply]:
        """A look that renews nothing."""
        fields = ("state", "claim_version", "cancel_version", "lease_expires_at")
        job = self._scripts.settings.job
        told = await self._scripts.read_all(HMGET, [(job(lease.job_id), *fields) for lease in leases])
        replies = []
        for lease, (state, version, cancel_version, expires_at) in zip(leases, told, strict=True):
            is_ours = state == b"running" and int(version or 0) == lease.claim_version
            replies.append(
                HeartbeatReply(lease, True, int(expires_at or 0), cancel_version == version)
                if is_ours
                else HeartbeatReply(lease, False)
            )
        return replies

    async def update_progress(self, updates: Sequence[ProgressUpdate]) -> list[bool]:
        arguments: list[Argument] = [self.now]
        for n in updates:
            job = n.claim.job
            place = None if n.stage is None else job.stages.index(n.stage)
            before = job.stages[place - 1] if place else ""
            arguments += (job.id, job.claim_version, n.stage or "", before)
            for value in (n.progress, n.message, n.checkpoint):
                said: Argument = "" if value is None else repr(value) if isinstance(value, float) else value
                arguments += ("0" if value is None else "1", said)
        told = await self._scripts.run(ADVANCE, *arguments)
        if told and told[0] == b"stage":
            n = updates[int(told[1])]
            check_advance(n.claim.job.stages, told[2].decode(), n.stage or "")
        return [said == b"1" for said in told]


def settlement_arguments(s: Settlement, job: JobRow, *, only_lost: bool = False) -> tuple[Argument, ...]:
    """A report in the order of `turn.lua`. `only_lost`: a sweep's, for a job that has lost its worker."""
    retries = "" if s.state is not State.RETRYING else str(job.attempt_count - s.refund)
    return (
        s.job_id,
        s.claim_version,
        s.state,
        s.outcome,
        "0" if s.result is None else "1",
        s.result or b"",
        s.error or "",
        s.delay_us,
        s.refund,
        "1" if s.is_release else "",
        "1" if s.take_away else "0",
        retries,
        s.last_stage or "",
        "1" if only_lost else "",
    )
