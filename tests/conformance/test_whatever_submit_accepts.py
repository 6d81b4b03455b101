"""Whatever submit accepts survives claim, settle, cancel, sweep, document, event, delivery and the wire; whatever does
not is refused at submit, by the name of its field, and nothing is stored."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from itertools import chain, repeat

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from euterpe.egress.target import parse_url
from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Cancelled, Outcome, Released, Success
from euterpe.model.duration import LONGEST_US
from euterpe.model.errors import InvalidInput
from euterpe.model.failures.failure import Category
from euterpe.model.job import Claim
from euterpe.model.reading.document import job_document
from euterpe.model.reading.views import Search
from euterpe.model.state import TERMINAL, State
from euterpe.model.submitting.batch import SubmitResult
from euterpe.model.submitting.submission import Submission
from euterpe.server.routes.submissions import submission_of
from euterpe.stores.remote.documents import JobReply as ReadDocument
from euterpe.stores.remote.documents import body_of
from euterpe.wire.jobs import SubmissionBody
from tests.conformance.acts import failure
from tests.conformance.any_submission import submissions
from tests.conformance.clock import START_US, FrozenClock
from tests.conformance.engines import ENGINES, Opened, Place

FIELDS = {
    "type", "queue", "requester_id", "priority", "delay", "run_at", "max_attempts", "timeout", "visibility", "lifetime",
    "stages", "idempotency_key", "idempotency_window", "correlation_id", "tags", "callback_url", "callback_events",
    "concurrency_key", "concurrency_limit", "payload_format", "retry",
}  # fmt: skip
OUTCOMES: tuple[Outcome, ...] = (
    Success(b'{"ok":true}'),
    failure(Category.TEMPORARY),
    failure(Category.PERMANENT),
    failure(Category.TIMEOUT, http_status=429),
    Released(),
    Cancelled(),
)
COPIES = len(OUTCOMES) + 3
ACCEPTED: list[Submission] = []


@pytest.mark.parametrize(("engine", "examples"), [("sqlite", 80), ("postgres", 25)])
def test_it_survives_or_is_refused_by_name(
    engine: str, examples: int, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = request.getfixturevalue("migrated_postgres_url") if engine == "postgres" else ""
    place = Place(request.getfixturevalue("sqlite_template"), tmp_path_factory.mktemp("any"), url)
    clock = FrozenClock()
    ACCEPTED.clear()
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        opened = runner.run(stack.enter_async_context(ENGINES[engine](place, clock)))

        @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(submissions())
        def lives(submission: Submission) -> None:
            runner.run(survives(opened, clock, submission))

        try:
            lives()
        finally:
            runner.run(stack.aclose())
    assert len(ACCEPTED) > examples / 5, "a suite that refuses everything proves nothing"


async def survives(opened: Opened, clock: FrozenClock, said: Submission) -> None:
    clock.now_us = START_US
    await opened.tables.run("DELETE FROM inbox_jobs")
    await opened.tables.run("DELETE FROM job_outbox_events")
    await opened.tables.run("DELETE FROM idempotency_keys")
    copies = [said, *repeat(msgspec.structs.replace(said, idempotency_key=None), COPIES - 1)]
    refusal: InvalidInput | None = None
    submit_results: list[SubmitResult] = []
    try:
        submit_results = await opened.store.submit_many(copies)
    except InvalidInput as error:
        refusal = error
    if refusal is not None:
        assert refusal.field.split(".", 1)[0] in FIELDS
        assert await opened.tables.run("SELECT 1 FROM inbox_jobs") == []
        return
    ACCEPTED.append(said)
    travels(said)
    await lives_its_life(opened, clock, said, submit_results)


def travels(said: Submission) -> None:
    """The same submission comes out of its own request over HTTP."""
    body = msgspec.json.decode(msgspec.json.encode(body_of(said)), type=SubmissionBody)
    read = submission_of(body, said.requester_id, 1_000_000)
    for field in Submission.__struct_fields__:
        expected = getattr(said, field)
        assert getattr(read, field) == (expected or None if field == "tags" else expected), field


async def lives_its_life(
    opened: Opened, clock: FrozenClock, said: Submission, submit_results: list[SubmitResult]
) -> None:
    store = opened.store
    assert await store.cancel(submit_results[0].job_id) is State.CANCELLED
    if submit_results[0].state == State.DELAYED:
        clock.now_us = (await store.get(submit_results[1].job_id)).run_at
        assert len(await store.sweeps.promote()) == COPIES - 1
    claims = await take_all(opened, said)
    assert claims
    assert await store.cancel(claims.pop().job.id, force=True) is State.CANCELLED
    outcomes = chain(OUTCOMES, repeat(Success(b"1")))
    while claims:
        await looks_right(opened, claims[0].job.id)
        lost, rest = claims[:1], claims[1:]
        verdicts = await store.settle([Report(c, o) for c, o in zip(rest, outcomes, strict=False)])
        assert all(verdict.accepted for verdict in verdicts)
        clock.advance(us=said.visibility_us + 60_000_000)
        assert await store.sweeps.reclaim() == len(lost)
        claims = await take_all(opened, said)
    clock.advance(us=LONGEST_US)
    await store.sweeps.urgent()
    for submitted in submit_results:
        assert (await looks_right(opened, submitted.job_id)) in TERMINAL
    await events_can_be_sent(opened, said)
    found = (await store.search(Search(type=said.type, queue=said.queue, requester_id=said.requester_id))).jobs
    assert len(found) == COPIES
    for tag in (said.tags or {}).items():
        assert len((await store.search(Search(tag=tag))).jobs) == COPIES
    await store.stats()


async def take_all(opened: Opened, said: Submission) -> list[Claim]:
    request = ClaimRequest(worker_id="w", limit=COPIES, queues=(said.queue,), types=(said.type,))
    return await opened.store.claim(request)


async def looks_right(opened: Opened, job_id: str) -> State:
    job = await opened.store.get(job_id)
    shown = msgspec.json.encode(job_document(job))
    assert msgspec.json.decode(shown, type=ReadDocument).job_id == job_id
    assert job.error is None or job.error_document == msgspec.json.decode(job.error)
    await opened.store.attempts(job_id)
    return job.state


async def events_can_be_sent(opened: Opened, said: Submission) -> None:
    found = await opened.store.outbox.search(limit=200)
    events = [await opened.store.outbox.get(event.id) for _, event in found]
    assert bool(events) == (said.callback_url is not None)
    for event in events:
        assert parse_url(event.url).origin == event.origin
        assert msgspec.json.decode(event.body)["job"]["tags"] == (said.tags or {})
