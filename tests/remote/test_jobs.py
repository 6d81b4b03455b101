"""Submitting, looking and steering over HTTP: the same answers and the same errors as on a database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from euterpe import Queue
from euterpe.backends.engines import connect
from euterpe.model.errors import (
    CommitUnknown,
    DependencyCycle,
    EuterpeError,
    IdempotencyConflict,
    IllegalTransition,
    InvalidInput,
    JobNotFound,
    PayloadTooLarge,
    StoreUnavailable,
    UnknownDependency,
    Unsupported,
)
from euterpe.model.failures.backoff import Backoff, Strategy
from euterpe.model.state import State
from euterpe.model.submitting.batch import Draft, new_ids
from euterpe.model.submitting.submission import Submission
from euterpe.queue.queue import core_of, submitter_of
from euterpe.stores.remote.store import AccessRefused, HttpStore, with_token
from tests.remote.conftest import Remote, make_key

NOBODY = "00000000-0000-4000-8000-000000000000"


async def test_every_option_arrives_as_it_was_said(queue: Queue, url: str) -> None:
    options: dict[str, Any] = {
        "queue": "mail",
        "priority": "bulk",
        "run_at": datetime.now(UTC).replace(microsecond=123_456) + timedelta(days=2),
        "max_attempts": 9,
        "timeout": "90s",
        "visibility": "45s",
        "lifetime": "3d",
        "backoff": Backoff(Strategy.LINEAR, initial_us=1_500, max_us=7_000_000, jitter=0.25),
        "retry_on_timeout": False,
        "idempotency_key": "k-1",
        "correlation_id": "c-1",
        "tags": {"team": "a", "dotted.name": "\u00fc"},
        "callback_url": "https://example.org/hook",
        "callback_events": "terminal",
        "concurrency_key": "one-at-a-time",
        "concurrency_limit": 2,
        "stages": ["claimed", "fetching"],
    }
    job = await queue.submit("t", {"n": 1, "text": "\u00fc"}, **options)
    assert job.state is State.DELAYED
    backend = connect(url)
    await backend.open()
    try:
        stored = await backend.store.get(job.id)
        expected = submitter_of(queue).make_submission("t", {"n": 1, "text": "\u00fc"}, **options)
        for name in msgspec.structs.fields(Submission):
            field = name.name
            if hasattr(stored, field) and field not in ("requester_id", "depends_on", "dependency"):
                assert getattr(stored, field) == getattr(expected, field), field
        assert stored.requester_id == "vesta"
        assert stored.expires_at - stored.created_at == expected.lifetime_us
    finally:
        await backend.close()


async def test_a_job_reads_back_whole(queue: Queue) -> None:
    job = await queue.submit("t", {"n": 1}, tags={"team": "a"}, correlation_id="c", priority="high", max_attempts=4)
    found = await queue.get(job.id)
    assert (found.id, found.type, found.state, found.priority) == (job.id, "t", State.SCHEDULED, 1)
    assert (found.tags, found.correlation_id, found.max_attempts) == ({"team": "a"}, "c", 4)
    assert found.payload == {"n": 1}
    assert found.result is None
    assert found.error is None


async def test_a_key_answers_the_same_request_again_and_refuses_another(queue: Queue) -> None:
    first = await queue.submit("t", {"n": 1}, idempotency_key="k")
    again = await queue.submit("t", {"n": 1}, idempotency_key="k")
    assert (first.replayed, again.replayed, again.id) == (False, True, first.id)
    with pytest.raises(IdempotencyConflict) as refused:
        await queue.submit("t", {"n": 2}, idempotency_key="k")
    assert (refused.value.key, refused.value.job_id) == ("k", first.id)


async def test_a_batch_is_stored_whole_or_not_at_all(queue: Queue) -> None:
    jobs = await queue.submit_many([("t", {"n": n}) for n in range(20)], idempotency_key="batch")
    again = await queue.submit_many([("t", {"n": n}) for n in range(20)], idempotency_key="batch")
    assert [job.id for job in again] == [job.id for job in jobs]
    assert all(job.replayed for job in again)
    flow = queue.workflow()
    flow.add("t", {"n": 1})
    flow.add("t", {"n": 2}, after=[NOBODY])
    with pytest.raises(UnknownDependency):
        await flow.store()
    assert (await queue.stats()).by_state == {"scheduled": 20}


async def test_a_workflow_keeps_its_shape(queue: Queue) -> None:
    async with queue.workflow() as flow:
        first = flow.add("t", {"n": 1})
        second = flow.add("t", {"n": 2}, after=[first])
    assert (await queue.get(first.id)).state is State.SCHEDULED
    assert (await queue.get(second.id)).state is State.PENDING
    assert await queue.cancel(first.id) is State.CANCELLED
    assert (await queue.get(second.id)).state is State.CANCELLED


async def test_a_cycle_is_named(store: HttpStore) -> None:
    one, other = new_ids(2)
    drafts = [
        Draft(one, Submission(type="t", depends_on=(other,))),
        Draft(other, Submission(type="t", depends_on=(one,))),
    ]
    with pytest.raises(DependencyCycle):
        await store.submit_graph(drafts)


async def test_pages_are_put_together_up_to_the_limit(queue: Queue) -> None:
    await queue.submit_many([("t", {"n": n}) for n in range(450)], tags={"team": "a"})
    await queue.submit("other", {})
    page = await queue.search(limit=300, tag=("team", "a"))
    rest = await queue.search(limit=300, tag=("team", "a"), cursor=page.cursor)
    assert (len(page.jobs), len(rest.jobs), rest.cursor) == (300, 150, None)
    assert len({job.id for job in page.jobs + rest.jobs}) == 450
    assert [job.type for job in (await queue.search(type="other", state="scheduled")).jobs] == ["other"]


async def test_cancel_and_retry(queue: Queue) -> None:
    job = await queue.submit("t", {"n": 1})
    with pytest.raises(IllegalTransition):
        await queue.retry(job.id)
    assert await queue.cancel(job.id) is State.CANCELLED
    again = await queue.retry(job.id)
    assert again.id != job.id
    assert (await queue.get(again.id)).replay_of == job.id


async def test_errors_have_their_types(queue: Queue, store: HttpStore) -> None:
    for look in (queue.get, queue.attempts, queue.cancel, queue.retry):
        with pytest.raises(JobNotFound) as unknown:
            await look(NOBODY)
        assert unknown.value.job_id == NOBODY
    with pytest.raises(JobNotFound):
        await queue.get("../stats")
    with pytest.raises(InvalidInput) as wrong:
        await queue.search(cursor="nonsense")
    assert wrong.value.field == "cursor"
    with pytest.raises(PayloadTooLarge):
        await queue.submit("t", "x" * 2_000_000)
    generous = msgspec.json.encode("x" * 2_000_000)
    store.payload_limit = 16_000_000
    with pytest.raises(PayloadTooLarge) as too_large:
        await store.submit(Submission(type="t", payload=generous))
    assert too_large.value.field == "payload"
    with pytest.raises(UnknownDependency):
        await queue.submit("t", {}, depends_on=[NOBODY])


async def test_what_http_cannot_carry_says_so(queue: Queue) -> None:
    with pytest.raises(Unsupported, match="transaction"):
        await queue.submit("t", {}, connection=object())
    with pytest.raises(Unsupported, match="all requesters"):
        await core_of(queue).store.depths()
    with pytest.raises(AccessRefused, match="admin"):
        await queue.pause(queue="default")


async def test_a_submission_for_another_requester_is_refused_and_not_stored_under_the_keys_own(queue: Queue) -> None:
    others = Submission(type="t", requester_id="somebody-else")
    with pytest.raises(Unsupported, match="another requester"):
        await core_of(queue).store.submit(others)
    with pytest.raises(Unsupported, match="another requester"):
        await core_of(queue).store.submit_many([Submission(type="t"), others])
    assert (await queue.stats()).by_state == {}


async def test_a_key_without_the_scope_or_without_any_truth_is_refused(remote: Remote) -> None:
    reader = await make_key(remote.url, "read")
    async with Queue(remote.base_url, token=reader) as queue:
        assert (await queue.stats()).by_state == {}
        with pytest.raises(AccessRefused, match="submit"):
            await queue.submit("t", {})
    for token in ("eut_nonsense", None):
        async with Queue(remote.base_url, token=token) as queue:
            with pytest.raises(AccessRefused):
                await queue.stats()


async def test_another_requesters_job_is_not_found(remote: Remote, queue: Queue) -> None:
    job = await queue.submit("t", {})
    stranger = await make_key(remote.url, "read", "submit", requester="mallory")
    async with Queue(remote.base_url, token=stranger) as other:
        with pytest.raises(JobNotFound):
            await other.get(job.id)


async def test_a_control_plane_that_is_gone_is_a_store_that_is_unavailable(remote: Remote) -> None:
    async with remote.queue() as queue:
        await queue.submit("t", {})
        remote.process.kill()
        for _ in range(2):
            with pytest.raises(StoreUnavailable) as gone:
                await queue.submit("t", {})
        assert not isinstance(gone.value, CommitUnknown)  # nobody was there: it was not stored
        with pytest.raises(StoreUnavailable):
            await queue.stats()


def test_the_token_is_in_no_representation_and_bad_ones_are_refused() -> None:
    assert with_token("http://127.0.0.1:8080", "eut_a/b") == "http://:eut_a%2Fb@127.0.0.1:8080"
    assert "secret-key" not in repr(connect("http://127.0.0.1:8080", token="secret-key"))
    for url, token in [
        ("http://127.0.0.1:8080", ""),
        ("http://127.0.0.1:8080", "two words"),
        ("http://127.0.0.1:8080", "line\nbreak"),
        ("http://:one@127.0.0.1:8080", "two"),
        ("http://", "one"),
        ("http://127.0.0.1:8080?x=1", "one"),
        ("sqlite:///jobs.db", "one"),
    ]:
        with pytest.raises(InvalidInput):
            connect(url, token=token)
    with pytest.raises(InvalidInput, match="transport"):
        connect("http://127.0.0.1:8080", wakeups_url="redis://127.0.0.1")


async def test_a_queue_that_is_not_open_says_so() -> None:
    with pytest.raises(EuterpeError, match="not open"):
        await Queue("http://127.0.0.1:1", token="x").submit("t", {})
