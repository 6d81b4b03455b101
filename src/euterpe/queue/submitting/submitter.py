"""From what a user says to what is stored: calls and payloads become checked submissions, and those become jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from euterpe.model.errors import InvalidInput
from euterpe.model.json_depth import check_depth
from euterpe.model.submitting.batch import Draft, JobKind, SubmitResult, Unit, drafts_of
from euterpe.model.submitting.references import ReferenceCollector
from euterpe.model.submitting.submission import Submission, check, check_key, check_payload
from euterpe.queue.core import QueueCore
from euterpe.queue.definition.job_type import (
    Call,
    JobType,
    are_uniform,
    kind_of_call,
    payload_of,
    payloads_of_uniform,
    submission_of_call,
    with_window,
)
from euterpe.queue.definition.options import Options, depending_on, encode_payload, submission_of
from euterpe.queue.handle import JobHandle
from euterpe.queue.submitting.submit_middleware import submit_through, submit_through_blocking

R = TypeVar("R")


class Submitter:
    """Checks and stores the submissions of one queue."""

    def __init__(self, core: QueueCore) -> None:
        self.core = core

    # --- store --------------------------------------------------------------------------------------

    async def submit_call(self, call: Call[R], connection: object, options: Mapping[str, Any]) -> JobHandle[R]:
        """What `render.submit(...)` comes down to."""
        kind = kind_of_call(call, options, self.core.payload_limit)
        submission = kind.submission.with_payload(payload_of(call))
        return (await self.store(Unit(drafts_of((submission,)), kind=kind), connection))[0]

    async def store(self, unit: Unit, connection: object) -> list[JobHandle[Any]]:
        core = self.core
        if unit.key is not None:
            check_key(unit.key)
        if core.submit_middleware:
            submit_results = await self._store_through(unit, connection)
        elif connection is None:
            submit_results = await core.store.submit_unit(unit)
        else:
            submit_results = await core.store.submit_unit_on(unit, connection, core.channel)
        return core.handles_of(submit_results)

    async def _store_through(self, unit: Unit, connection: object) -> list[SubmitResult]:
        core = self.core

        async def store(submissions: Sequence[Submission]) -> list[SubmitResult]:
            checked = _with_submissions(unit, submissions)
            if connection is None:
                return await core.store.submit_unit(checked)
            return await core.store.submit_unit_on(checked, connection, core.channel)

        requested = [draft.submission for draft in unit.drafts]
        return await submit_through(core.submit_middleware, requested, core.payload_limit, store)

    async def store_drafts(self, drafts: Sequence[Draft], key: str | None, connection: object) -> list[JobHandle[Any]]:
        return await self.store(Unit(tuple(drafts), key=key), connection) if drafts else []

    def store_blocking(self, unit: Unit, connection: object) -> list[JobHandle[Any]]:
        """Into the transaction of a blocking connection, from code that cannot await."""
        core = self.core

        def store(submissions: Sequence[Submission]) -> list[SubmitResult]:
            return core.store.submit_unit_on_sync(_with_submissions(unit, submissions), connection, core.channel)

        requested = [draft.submission for draft in unit.drafts]
        if core.submit_middleware:
            submit_results = submit_through_blocking(core.submit_middleware, requested, core.payload_limit, store)
        else:
            submit_results = store(requested)
        return core.handles_of(submit_results)

    # --- check --------------------------------------------------------------------------------------

    def call_of(self, what: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Call[Any] | str, object]:
        """(call or type name, payload): what `make_submission` takes."""
        if isinstance(what, Call):
            if args or kwargs:
                raise InvalidInput("arguments", "are already part of the call made by with_args")
            return what, None
        if isinstance(what, JobType):
            return what.with_args(*args, **kwargs), None
        if isinstance(what, str):
            if len(args) > 1 or (args and kwargs):
                raise InvalidInput("arguments", f"of {what!r}: give one payload, or named arguments")
            return what, (args[0] if args else kwargs)
        raise InvalidInput("job", f"{what!r} is not a job type, a call or a type name")

    def make_submission(self, what: object, payload: object = None, /, **options: Any) -> Submission:
        """A checked submission of a call, a job type without arguments, or a type name with a payload."""
        core = self.core
        if isinstance(what, JobType):
            what = what.with_args()
        if isinstance(what, Call):
            if payload is not None:
                raise InvalidInput("payload", "is already part of the call made by with_args")
            return submission_of_call(what, options, core.payload_limit)
        if not isinstance(what, str):
            raise InvalidInput("job", f"{what!r} is not a job type, a call or a type name")
        definition = core.definitions.get(what)
        collector = ReferenceCollector()
        encode = encode_payload if definition is None else definition.encode_payload
        encoded, form = encode(payload, collector)
        if collector.ids:
            options = depending_on(options, collector.ids)
        defaults: Options = with_window(core, {}) if definition is None else definition.defaults
        submission = submission_of(what, encoded, form, {**defaults, **options})
        check(submission, core.payload_limit)
        return submission

    def make_single(self, what: object, payload: object, options: Mapping[str, Any]) -> Unit:
        submission = self.make_submission(what, payload, **options)
        return Unit(drafts_of((submission,)), kind=JobKind(submission))

    def make_unit(self, calls: Sequence[Any], options: Mapping[str, Any]) -> Unit:
        rest = dict(options)
        key = rest.pop("idempotency_key", None)
        submissions, kind = self._submissions(list(calls), rest)
        return Unit(drafts_of(submissions), key=key, kind=kind)

    def _submissions(self, calls: Sequence[Any], options: Mapping[str, Any]) -> tuple[list[Submission], JobKind | None]:
        """What is said of one call is read and checked once for all that follow and are like it. Beside them their
        kind, if they are of one."""
        limit = self.core.payload_limit
        payloads = payloads_of_uniform(calls)
        if payloads is not None:
            kind = kind_of_call(calls[0], options, limit)
            check_payload(max(payloads, key=len), limit)
            for payload in payloads:
                check_depth("payload", payload)
            return list(map(kind.submission.with_payload, payloads)), kind
        submissions: list[Submission] = []
        known: tuple[Call[Any], Submission] | None = None
        for call in calls:
            if known is not None and isinstance(call, Call) and are_uniform(call, known[0]):
                payload = payload_of(call)
                check_payload(payload, limit)
                check_depth("payload", payload)
                submissions.append(known[1].with_payload(payload))
                continue
            submission = self.make_submission(*(call if isinstance(call, tuple) else (call, None)), **options)
            known = (call, submission) if isinstance(call, Call) else None
            submissions.append(submission)
        return submissions, None


def _with_submissions(unit: Unit, submissions: Sequence[Submission]) -> Unit:
    drafts = tuple(Draft(draft.id, submission) for draft, submission in zip(unit.drafts, submissions, strict=True))
    return msgspec.structs.replace(unit, drafts=drafts, kind=None)
