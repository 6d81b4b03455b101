"""Submitting: what comes while a call is under way goes into the next one; each unit is stored whole or not at all."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from euterpe.model.errors import (
    EuterpeError,
    IdempotencyConflict,
    InvalidInput,
    StaleLease,
    Unsupported,
)
from euterpe.model.priority import PRIORITY_NAMES
from euterpe.model.reading.document import rfc3339
from euterpe.model.state import State
from euterpe.model.submitting.batch import Draft, JobKind, SubmitResult, Unit
from euterpe.model.submitting.submission import (
    EXECUTION_TIMEOUT_US,
    LOCAL_REQUESTER,
    VISIBILITY_US,
    Submission,
    batch_scope,
    idempotency_scope,
    request_hash,
)
from euterpe.ports import Clock
from euterpe.stores.redis_lists.commands import SUBMIT, SUBMIT_ONE
from euterpe.stores.redis_lists.entry import SEPARATOR, EntryTemplate, entry_of
from euterpe.stores.redis_lists.scripts import Argument, RedisScripts, key_taken
from euterpe.stores.redis_lists.settings import ListSettings

Answer = list[SubmitResult] | EuterpeError
_NO_PARENT: Final = ("", "")
_KINDS: Final = 200
"""So many kinds of jobs are remembered; a process has a few."""


class ListKeyClaim(msgspec.Struct, frozen=True):
    """An idempotency key of a unit. `place` is the job that it belongs to, counted from one; 0 for the whole unit."""

    name: str
    said: str
    request_hash: bytes
    window_us: int
    place: int


class Submitting:
    """Writes units under these names of keys."""

    def __init__(self, scripts: RedisScripts, clock: Clock | None, key_window_us: Callable[[], int]) -> None:
        self._scripts = scripts
        self._clock = clock
        self._key_window_us = key_window_us
        self._commands: dict[JobKind, LoneSubmit] = {}
        self._last_kind: JobKind | None = None

    async def write(self, units: Sequence[Unit]) -> list[Answer]:
        """An answer for each: its answers, or the error that refused it."""
        if len(units) == 1 and (submitted := await self._write_one(units[0])) is not None:
            return [[submitted]]
        answers: dict[int, Answer] = {}
        arguments: list[Argument] = []
        claims: dict[int, list[ListKeyClaim]] = {}
        now = "" if self._clock is None else str(self._clock())
        creation_time = _rfc3339_nano(self._clock)
        for i, unit in enumerate(units):
            try:
                check_supported(unit)
                claims[i] = key_claims(unit, self._key_window_us())
            except EuterpeError as error:
                answers[i] = error
                continue
            arguments += _unit_arguments(unit, claims[i], self._scripts.settings, creation_time)
        told = await self._scripts.run(SUBMIT, now, len(claims), *arguments) if claims else []
        for (i, wanted), lines in zip(claims.items(), told, strict=True):
            answers[i] = _answer(units[i], wanted, lines)
        return [answers[i] for i in range(len(units))]

    async def _write_one(self, unit: Unit) -> SubmitResult | None:
        """The answer of a plain job alone; None for all else, and where something is wrong: nothing is stored then."""
        if len(unit.drafts) != 1 or unit.key is not None or unit.parent is not None:
            return None
        draft = unit.drafts[0]
        command = self._command_of(unit.kind, draft.submission)
        if command is None:
            return None
        now = "" if self._clock is None else self._clock()
        created_at = await self._scripts.run(
            SUBMIT_ONE, now, draft.id, *command.arguments(draft, _rfc3339_nano(self._clock))
        )
        return (
            None if created_at is None else _submit_result(draft, draft.id, State.SCHEDULED, created_at, replayed=False)
        )

    def _command_of(self, kind: JobKind | None, s: Submission) -> LoneSubmit | None:
        """Remembered from the second submit of a kind on: many are made for a single job."""
        if kind is not None and (known := self._commands.get(kind)) is not None:
            return known
        if not _is_plain(s):
            return None
        command = LoneSubmit(s, self._scripts.settings)
        if kind is not None and kind is self._last_kind:
            if len(self._commands) >= _KINDS:
                self._commands.clear()
            self._commands[kind] = command.with_template()
        self._last_kind = kind
        return command


class LoneSubmit:
    """What `submit_one.lua` is given for a plain job, and for all others of its kind."""

    def __init__(self, s: Submission, keys: ListSettings) -> None:
        self._submission = s
        self._list = keys.list_for(s.queue, s.priority)
        self._priority_name = keys.priority_name(self._list, s.priority)
        self._kind = f"{s.queue}{SEPARATOR}{s.type}"
        self._own_fields = _own_fields(s)
        self._template: EntryTemplate | None = None

    def with_template(self) -> LoneSubmit:
        self._template = EntryTemplate(self._submission, self._list, self._priority_name)
        return self

    def arguments(self, draft: Draft, creation_time: str) -> tuple[Argument, ...]:
        s, entry = draft.submission, None
        if self._template is not None:
            entry = self._template.entry_of(draft.id, s.payload, creation_time)
        if entry is None:
            entry = entry_of(draft.id, s, self._list, self._priority_name, creation_time, None)
        return self._list, self._kind, s.lifetime_us, entry, s.payload, *self._own_fields


def _is_plain(s: Submission) -> bool:
    return not (
        s.idempotency_key is not None
        or s.depends_on
        or s.callback_url is not None
        or s.unique_key is not None
        or s.concurrency_key is not None
        or s.delay_us
        or s.run_at is not None
    )


def _own_fields(s: Submission) -> list[Argument]:
    """Fields of the record that say something else than the defaults."""
    fields: list[Argument] = []
    if s.requester_id != LOCAL_REQUESTER:
        fields += ("requester_id", s.requester_id)
    if s.visibility_us != VISIBILITY_US:
        fields += ("visibility_us", s.visibility_us)
    if s.execution_timeout_us != EXECUTION_TIMEOUT_US:
        fields += ("timeout_us", s.execution_timeout_us)
    return fields


def check_supported(unit: Unit) -> None:
    """Raises Unsupported for what Redis lists have no place for."""
    for draft in unit.drafts:
        s = draft.submission
        if s.depends_on:
            raise Unsupported("Redis lists keep no dependencies between jobs; use a SQL engine for workflows")
        if s.callback_url is not None:
            raise Unsupported("Redis lists have no outbox for webhooks; use a SQL engine for callback_url")
        if s.unique_key is not None:
            raise Unsupported("Redis lists keep no unique keys; use a SQL engine for them")
        if s.concurrency_key is not None:
            raise Unsupported("Redis lists keep no concurrency keys; use a SQL engine for them")


def key_claims(unit: Unit, window_us: int) -> list[ListKeyClaim]:
    if unit.key is None:
        for draft in unit.drafts:
            if draft.submission.idempotency_key is not None:
                break
        else:
            return []
    claims = [] if unit.key is None else [_unit_key(unit, window_us)]
    for place, draft in enumerate(unit.drafts, 1):
        s = draft.submission
        if s.idempotency_key is not None:
            name = f"{idempotency_scope(s.requester_id, s.type)}{SEPARATOR}{s.idempotency_key}"
            claims.append(ListKeyClaim(name, s.idempotency_key, request_hash(s), _window_us(s, window_us), place))
    if len({claim.name for claim in claims}) < len(claims):
        raise InvalidInput("idempotency_key", "the same key stands twice in one batch")
    return claims


def _unit_key(unit: Unit, window_us: int) -> ListKeyClaim:
    assert unit.key is not None
    said = hashlib.sha256()
    for draft in unit.drafts:
        said.update(request_hash(draft.submission))
    name = f"{batch_scope(unit.drafts[0].submission.requester_id)}{SEPARATOR}{unit.key}"
    longest_us = max(_window_us(draft.submission, window_us) for draft in unit.drafts)
    return ListKeyClaim(name, unit.key, said.digest(), longest_us, 0)


def _window_us(submission: Submission, default_us: int) -> int:
    return default_us if submission.idempotency_window_us is None else submission.idempotency_window_us


def _unit_arguments(
    unit: Unit, claims: Sequence[ListKeyClaim], keys: ListSettings, creation_time: str
) -> list[Argument]:
    parent = _NO_PARENT if unit.parent is None else (unit.parent.job_id, str(unit.parent.claim_version))
    arguments: list[Argument] = [*parent, len(claims)]
    for claim in claims:
        arguments += (claim.name, claim.request_hash.hex(), claim.window_us, claim.place)
    arguments.append(len(unit.drafts))
    for draft in unit.drafts:
        s = draft.submission
        list_key = keys.list_for(s.queue, s.priority)
        entry = entry_of(
            draft.id, s, list_key, keys.priority_name(list_key, s.priority), creation_time, parent[0] or None
        )
        arguments += (
            draft.id,
            list_key,
            f"{s.queue}{SEPARATOR}{s.type}",
            "" if s.requester_id == LOCAL_REQUESTER else s.requester_id,
            s.delay_us,
            "" if s.run_at is None else s.run_at,
            s.lifetime_us,
            "" if s.visibility_us == VISIBILITY_US else s.visibility_us,
            "" if s.execution_timeout_us == EXECUTION_TIMEOUT_US else s.execution_timeout_us,
            entry,
            s.payload,
        )
    return arguments


def _answer(unit: Unit, claims: Sequence[ListKeyClaim], lines: list[Any]) -> Answer:
    kind, *told = lines
    if kind == b"stored":
        return [
            _told(draft, *told[4 * i + 1 : 4 * i + 4], replayed=told[4 * i] == b"1")
            for i, draft in enumerate(unit.drafts)
        ]
    if kind == b"replayed":
        return [_told(draft, *told[3 * i : 3 * i + 3], replayed=True) for i, draft in enumerate(unit.drafts)]
    if kind == b"conflict":
        name = told[0].decode()
        said = next(claim.said for claim in claims if claim.name == name)
        return IdempotencyConflict(said, told[1].decode())
    if kind == b"stale":
        assert unit.parent is not None
        return StaleLease(unit.parent.job_id, unit.parent.claim_version)
    if kind == b"late":
        return InvalidInput("run_at", "lies beyond the lifetime: the job would end before it could run")
    return key_taken(told[0].decode())


def _told(draft: Draft, job_id: bytes, state: bytes, created_at: bytes, *, replayed: bool) -> SubmitResult:
    return _submit_result(draft, job_id.decode(), state.decode(), created_at, replayed=replayed)


def _submit_result(draft: Draft, job_id: str, state: str, created_at: bytes, *, replayed: bool) -> SubmitResult:
    s = draft.submission
    return SubmitResult(
        job_id=job_id,
        type=s.type,
        queue=s.queue,
        state=state,
        priority=PRIORITY_NAMES[s.priority],
        created_at=rfc3339(int(created_at)) or "",
        correlation_id=s.correlation_id,
        replayed=replayed,
    )


def fresh_by_queue(answers: Sequence[Answer]) -> tuple[Counter[str], set[str]]:
    """How many jobs each queue got, and which queues have some that can run at once."""
    fresh = [r for answer in answers if not isinstance(answer, EuterpeError) for r in answer if not r.replayed]
    return Counter(r.queue for r in fresh), {r.queue for r in fresh if r.state == State.SCHEDULED}


def _rfc3339_nano(clock: Clock | None) -> str:
    """As Go writes it: no zeros behind the last digit that counts."""
    seconds, nanoseconds = divmod(time.time_ns() if clock is None else 1000 * clock(), 1_000_000_000)
    fraction = f"{nanoseconds:09d}".rstrip("0")
    return f"{_second(seconds)}.{fraction}Z" if fraction else f"{_second(seconds)}Z"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
