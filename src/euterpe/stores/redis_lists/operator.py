"""What operators do to jobs, each act a compare-and-set on what they saw; and looking at jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from euterpe.model.claims.outcome import Settlement, taken_away
from euterpe.model.errors import IllegalTransition, InvalidInput, JobNotFound, JobPruned, StoreUnavailable, Unsupported
from euterpe.model.job import AttemptRow, JobRow
from euterpe.model.state import TERMINAL, By, State, check_move
from euterpe.model.submitting.changes import Changes, changed
from euterpe.model.submitting.replay import replay_of
from euterpe.model.submitting.submission import Submission, check_name
from euterpe.stores.redis_lists.commands import (
    DEAD_LETTER_FAILED,
    END_WAITING,
    HGET,
    HGETALL,
    LRANGE,
    PURGE,
    REQUEST_CANCEL,
    RETRY_FAILED,
    SADD,
    SMEMBERS,
    SREM,
    UPDATE,
    record_of,
)
from euterpe.stores.redis_lists.entry import SEPARATOR, Rows, attempt_rows, changed_entry
from euterpe.stores.redis_lists.exchange import ListExchange
from euterpe.stores.redis_lists.scripts import RedisScripts
from euterpe.stores.sql.jobs.ended_jobs import EndedJob
from euterpe.stores.sql.maintenance.operator import CANCELLED_BY_FORCE, CANCELLED_BY_REQUEST

TRIES: Final = 20
"""A job that changes under our eyes is looked at again; so often nobody changes one."""
ID_LIMIT: Final = 256


class ListOperator:
    """Acts on single jobs."""

    def __init__(self, scripts: RedisScripts, rows: Rows, exchange: ListExchange) -> None:
        self._scripts = scripts
        self._rows = rows
        self._exchange = exchange

    # --- looking --------------------------------------------------------------------------------------

    async def get(self, job_id: str, requester_id: str | None) -> JobRow:
        return (await self._look(job_id, requester_id))[0]

    async def get_many(self, job_ids: Sequence[str]) -> list[JobRow]:
        """Those that are there, in one round trip."""
        keys = [(self._scripts.settings.job(job_id),) for job_id in job_ids]
        records = map(record_of, await self._scripts.read_all(HGETALL, keys))
        return [self._rows.stored(job_id, record) for job_id, record in zip(job_ids, records, strict=True) if record]

    async def _look(self, job_id: str, requester_id: str | None) -> tuple[JobRow, bytes]:
        """The job, and its entry as it stands in a list."""
        stored_id = possible_id(job_id)
        record = record_of(await self._scripts.read(HGETALL, self._scripts.settings.job(stored_id)))
        if not record and stored_id != job_id:  # Another program's own spelling.
            record = record_of(await self._scripts.read(HGETALL, self._scripts.settings.job(job_id)))
            stored_id = job_id if record else stored_id
        if not record:
            raise await self._missing(stored_id, requester_id)
        job = self._rows.stored(stored_id, record)
        if requester_id not in (None, job.requester_id):
            raise JobNotFound(job_id)
        return job, record[b"entry"]

    async def _missing(self, job_id: str, requester_id: str | None) -> JobNotFound:
        whose = await self._scripts.read(HGET, f"{self._scripts.settings.prefix}:pruned", job_id)
        if whose is not None and requester_id in (None, whose.decode()):
            return JobPruned(job_id)
        return JobNotFound(job_id)

    async def attempts(self, job_id: str, requester_id: str | None) -> list[AttemptRow]:
        job = await self.get(job_id, requester_id)
        closed = await self._scripts.read(LRANGE, f"{self._scripts.settings.prefix}:attempts:{job.id}", 0, -1)
        return attempt_rows(job, closed)

    # --- acting ---------------------------------------------------------------------------------------

    async def cancel(self, job_id: str, requester_id: str | None, *, force: bool) -> tuple[State, EndedJob | None]:
        """Its state then; `running` means that the request is on its way to the worker."""
        for _ in range(TRIES):
            job = await self.get(job_id, requester_id)
            if job.state is State.CANCELLED:
                return State.CANCELLED, None
            if job.state in TERMINAL:
                raise IllegalTransition(job.state, State.CANCELLED, "it has already ended")
            if job.state is State.RUNNING and not force:
                if await self._scripts.run(REQUEST_CANCEL, job.id, job.claim_version):
                    return State.RUNNING, None
                continue
            reason = CANCELLED_BY_FORCE if job.state is State.RUNNING else CANCELLED_BY_REQUEST
            if await self.take_away(job, taken_away(job, State.CANCELLED, reason, By.OPERATOR)):
                return State.CANCELLED, ended_of(job, State.CANCELLED, reason.category, reason.code)
        raise _restless(job_id)

    async def take_away(self, job: JobRow, settlement: Settlement) -> bool:
        """End a job wherever it is. False: it was no longer as it was seen."""
        if job.state is State.RUNNING:
            (state,), _ = await self._exchange.run([settlement], [job], None)
            return state is not None
        seen = (job.id, job.claim_version, job.state, settlement.state, settlement.error or "")
        (done,) = await self._scripts.run(END_WAITING, self._exchange.now, *seen)
        return bool(done == b"1")

    async def retry(self, job_id: str, requester_id: str | None) -> JobRow | Submission:
        """A failed job with budget left is scheduled again; for another ended one, the submission that replays it."""
        for _ in range(TRIES):
            job = await self.get(job_id, requester_id)
            if job.state not in TERMINAL:
                raise IllegalTransition(job.state, State.SCHEDULED, "only an ended job can be retried")
            if job.state is not State.FAILED or job.attempt_count >= job.max_attempts:
                return replay_of(job)
            check_move(job.state, State.SCHEDULED, By.OPERATOR)
            if await self._scripts.run(RETRY_FAILED, self._exchange.now, job.id, job.claim_version):
                return await self.get(job_id, requester_id)
        raise _restless(job_id)

    async def dead_letter(self, job_id: str, requester_id: str | None) -> JobRow:
        for _ in range(TRIES):
            job = await self.get(job_id, requester_id)
            check_move(job.state, State.DEAD_LETTER, By.OPERATOR)
            if await self._scripts.run(DEAD_LETTER_FAILED, self._exchange.now, job.id, job.claim_version):
                return job
        raise _restless(job_id)

    async def purge(self, job_ids: Sequence[str]) -> list[str]:
        if not job_ids:
            return []
        stored = [possible_id(job_id) for job_id in job_ids]
        kind, *told = await self._scripts.run(PURGE, self._exchange.now, *stored)
        if kind == b"refused":
            job_id, state = (text.decode() for text in told)
            raise IllegalTransition(state, "purged", f"job {job_id} is not a dead letter")
        return [text.decode() for text in told]

    async def update(self, job_id: str, changes: Changes, requester_id: str | None) -> JobRow:
        if changes.callback_url is not msgspec.UNSET and changes.callback_url is not None:
            raise Unsupported("Redis lists have no outbox for webhooks; use a SQL engine for callback_url")
        keys = self._scripts.settings
        for _ in range(TRIES):
            job, entry = await self._look(job_id, requester_id)
            after = changed(job, changes)
            list_key = keys.list_for(after.queue, after.priority)
            new = changed_entry(entry, after, list_key, keys.priority_name(list_key, after.priority))
            if await self._scripts.run(UPDATE, job.id, job.claim_version, job.state, entry, new, list_key):
                return after
        raise _restless(job_id)

    # --- pauses ---------------------------------------------------------------------------------------

    async def pause(self, kind: str, name: str) -> None:
        if kind not in ("queue", "type"):
            raise InvalidInput("kind", f"{kind!r} is not queue or type")
        check_name("name", name)
        await self._scripts.read(SADD, f"{self._scripts.settings.prefix}:paused", f"{kind}{SEPARATOR}{name}")

    async def resume(self, kind: str, name: str) -> None:
        await self._scripts.read(SREM, f"{self._scripts.settings.prefix}:paused", f"{kind}{SEPARATOR}{name}")

    async def paused(self) -> list[tuple[str, str]]:
        members = await self._scripts.read(SMEMBERS, f"{self._scripts.settings.prefix}:paused")
        said = sorted(member.decode().partition(SEPARATOR) for member in members)
        return [(kind, name) for kind, _, name in said]


def possible_id(job_id: str) -> str:
    """The id as it is stored. Other programs choose ids as they like; ours are of lower case."""
    if not job_id or "\0" in job_id or not _is_unicode(job_id) or len(job_id.encode()) > ID_LIMIT:
        raise JobNotFound(job_id, f"{job_id[:100]!r} is not the id of a job")
    return job_id.lower() if len(job_id) == _UUID_LENGTH else job_id


_UUID_LENGTH: Final = 36


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def ended_of(job: JobRow, state: State, category: str, code: str, *, had_failed: bool = False) -> EndedJob:
    return EndedJob(job.id, job.queue, job.type, state, category, code, had_failed, job.claim_version)


def _restless(job_id: str) -> StoreUnavailable:
    return StoreUnavailable(f"job {job_id} changed each time it was looked at; try again")
