"""The connection breaks at the worst moment, around a commit: what was promised is there once, what was not is told."""

from __future__ import annotations

import asyncio

import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Failed, Success
from euterpe.model.errors import CommitUnknown, StoreUnavailable
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.state import State
from euterpe.model.submitting.batch import Draft, new_ids
from euterpe.model.submitting.replay import replay_of
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.worker_protocol import lost_claims
from tests.faults.crew import until
from tests.faults.history import check
from tests.faults.proxy import Cut, proxied
from tests.faults.recorder import rows, schema_of
from tests.faults.stores import opened

CUTS = pytest.mark.parametrize("cut", list(Cut), ids=lambda cut: cut.value)
CALLBACK = "http://receiver.invalid/"


@CUTS
async def test_a_submit_with_a_key_is_stored_once_and_answered_the_same_for_ever(
    postgres_database: str, cut: Cut
) -> None:
    async with proxied(postgres_database) as (proxy, url), opened(url) as store:
        urgent = await store.submit(Submission(type="t", priority=0))
        request = Submission(type="t", idempotency_key="k", priority=4, depends_on=(urgent.job_id,))
        trap = proxy.cut("COMMIT", cut)
        first = await store.submit(request)
        assert trap.sprung.is_set()
        again = await store.submit(request)
        assert again.response == first.response, "the answer after the cut is not the one that is kept"
        assert again.replayed
        assert first.priority == "critical", "inherited, also in the answer"
    assert rows(postgres_database, "SELECT count(*) FROM inbox_jobs WHERE idempotency_key = 'k'") == [(1,)]
    check(postgres_database)


@CUTS
async def test_a_replay_whose_commit_was_lost_is_marked_and_leaves_its_group(postgres_database: str, cut: Cut) -> None:
    async with proxied(postgres_database) as (proxy, url), opened(url) as store:
        await store.submit(Submission(type="t"))
        (claim,) = await store.claim(ClaimRequest(worker_id="w", limit=1))
        await store.settle([Report(claim, Failed(Failure(Category.PERMANENT, "no")))])
        assert len((await store.failure_groups(None)).groups) == 1
        failed = await store.get(claim.job.id)
        trap = proxy.cut("COMMIT", cut)
        replayed = await store.submit(replay_of(failed))
        assert trap.sprung.is_set()
        assert not replayed.replayed, "it is the first answer, and no repeated one"
        assert not (await store.failure_groups(None)).groups


async def test_the_answer_to_a_lost_commit_is_the_stored_one_even_if_the_job_ran_meanwhile(
    postgres_database: str,
) -> None:
    async with proxied(postgres_database) as (proxy, url), opened(url) as store, opened(postgres_database) as other:
        trap = proxy.cut("COMMIT", Cut.AFTER)
        submit = asyncio.create_task(store.submit(Submission(type="t", idempotency_key="k")))
        await trap.sprung.wait()
        proxy.freeze()
        [claim] = await other.claim(ClaimRequest(worker_id="quick", limit=1))
        await other.settle([Report(claim, Success())])
        proxy.thaw()
        first = await submit
        again = await other.submit(Submission(type="t", idempotency_key="k"))
        assert first.response == again.response
        assert first.state == "scheduled"


@CUTS
async def test_a_plain_submit_is_stored_exactly_once(postgres_database: str, cut: Cut) -> None:
    async with proxied(postgres_database) as (proxy, url), opened(url) as store:
        trap = proxy.cut("INSERT INTO", cut)
        submitted = await store.submit(Submission(type="t"))
        assert trap.sprung.is_set()
        assert rows(postgres_database, "SELECT CAST(id AS text) FROM inbox_jobs") == [(submitted.job_id,)]
    check(postgres_database)


async def test_a_plain_submit_that_the_server_still_works_on_is_not_stored_a_second_time(
    postgres_database: str,
) -> None:
    """The hardest case: when the client asks whether its job is there, the insert it lost sight of is still waiting."""
    async with proxied(postgres_database) as (proxy, url), opened(url) as store:
        schema = schema_of(postgres_database)
        await store.submit(Submission(type="first"))  # prepares the statement, which would wait for the table too
        async with opened(postgres_database) as other:
            connection = await other.engine.connect()  # type: ignore[attr-defined]
            async with connection.transaction():
                await connection.execute(f"LOCK TABLE {schema}.inbox_jobs IN SHARE ROW EXCLUSIVE MODE")
                trap = proxy.cut("INSERT INTO", Cut.AT_ONCE)
                submit = asyncio.create_task(store.submit(Submission(type="t")))
                await trap.sprung.wait()
                await until(lambda: _waiting_inserts(postgres_database, 2))
            await connection.close()
        submitted = await submit
        assert rows(postgres_database, "SELECT CAST(id AS text) FROM inbox_jobs WHERE type = 't'") == [
            (submitted.job_id,)
        ]
    check(postgres_database)


async def _waiting_inserts(url: str, count: int) -> bool:
    return rows(
        url,
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%INSERT INTO%'"
        f" AND query LIKE '%{schema_of(url)}%'",
    ) == [(count,)]


@CUTS
async def test_a_batch_with_a_key_and_edges_is_stored_whole_and_once(postgres_database: str, cut: Cut) -> None:
    async with proxied(postgres_database) as (proxy, url), opened(url) as store:
        a, b = new_ids(2)
        drafts = [Draft(a, Submission(type="t")), Draft(b, Submission(type="t", depends_on=(a,)))]
        trap = proxy.cut("COMMIT", cut)
        first = await store.submit_graph(drafts, key="graph")
        assert trap.sprung.is_set()
        c, d = new_ids(2)
        same = [Draft(c, Submission(type="t")), Draft(d, Submission(type="t", depends_on=(c,)))]
        again = await store.submit_graph(same, key="graph")
        assert [r.response for r in again] == [r.response for r in first]
    assert rows(postgres_database, "SELECT count(*) FROM inbox_jobs") == [(2,)]
    assert rows(postgres_database, "SELECT count(*) FROM job_dependencies") == [(1,)]
    check(postgres_database)


@CUTS
async def test_a_settlement_whose_answer_was_lost_is_raised_and_can_be_repeated(
    postgres_database: str, cut: Cut
) -> None:
    async with proxied(postgres_database) as (proxy, url), opened(url) as store:
        submitted = await store.submit(Submission(type="t", callback_url=CALLBACK))
        child = await store.submit(Submission(type="t", depends_on=(submitted.job_id,)))
        [claim] = await store.claim(ClaimRequest(worker_id="w", limit=1))
        trap = proxy.cut("COMMIT", cut)
        with pytest.raises(CommitUnknown):
            await store.settle([Report(claim, Success(b"7"))])
        assert trap.sprung.is_set()
        [verdict] = await store.settle([Report(claim, Success(b"7"))])
        assert (verdict.accepted, verdict.state) == (True, State.COMPLETED)
        assert (await store.get(child.job_id)).state is State.SCHEDULED
    history = check(postgres_database)
    assert len(history.closed) == 1
    assert [e.type for e in sorted(history.events, key=lambda e: e.sequence)] == ["job.running", "job.completed"]


@CUTS
async def test_a_claim_whose_answer_was_lost_comes_back_when_its_lease_is_over(
    postgres_database: str, cut: Cut
) -> None:
    async with proxied(postgres_database) as (proxy, url), opened(url) as store:
        await store.submit(Submission(type="t", callback_url=CALLBACK))
        proxy.cut("COMMIT", cut)
        with pytest.raises(CommitUnknown):
            await store.claim(ClaimRequest(worker_id="w", limit=1, lease_ttl_us=100_000))

        async def claimed() -> bool:
            await store.sweeps.urgent()
            return len(await store.claim(ClaimRequest(worker_id="w", limit=1))) == 1

        await until(claimed)
    check(postgres_database)


@CUTS
@pytest.mark.parametrize(("callback", "text"), [(None, "euterpe_running"), (CALLBACK, "COMMIT")], ids=["plain", "full"])
async def test_what_was_claimed_for_http_workers_is_given_back_when_the_answer_was_lost(
    postgres_database: str, cut: Cut, callback: str | None, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_claims, "PAUSES_S", (0.0, 0.2, 0.2))
    async with proxied(postgres_database) as (proxy, url), opened(url) as store:
        request = ClaimRequest(worker_id="w", limit=1)
        await store.submit(Submission(type="t", max_attempts=1, callback_url=callback))
        [runs] = await store.control_plane.claim_for(request, ["w"])
        lost = await store.submit(Submission(type="t", max_attempts=1, callback_url=callback))
        trap = proxy.cut(text, cut)
        with pytest.raises(CommitUnknown):
            await store.control_plane.claim_for(request, ["w"])
        assert trap.sprung.is_set()
        [again] = await store.control_plane.claim_for(request, ["w"])
        assert (again.job.id, again.job.attempt_count) == (lost.job_id, 1)
        assert (await store.get(runs.job.id)).claim_version == 1
    check(postgres_database)


@CUTS
async def test_a_heartbeat_whose_answer_was_lost_can_be_repeated(postgres_database: str, cut: Cut) -> None:
    async with proxied(postgres_database) as (proxy, url), opened(url) as store:
        await store.submit(Submission(type="t"))
        [claim] = await store.claim(ClaimRequest(worker_id="w", limit=1))
        proxy.cut("heartbeat_at", cut)
        with pytest.raises(StoreUnavailable):
            await store.heartbeat([claim.lease])
        assert (await store.heartbeat([claim.lease]))[0].alive


async def test_many_submits_at_once_survive_a_cut_in_their_common_commit(postgres_database: str) -> None:
    async with proxied(postgres_database) as (proxy, url), opened(url) as store:
        for cut in Cut:
            proxy.cut("COMMIT", cut)
            requests = [Submission(type="t", idempotency_key=f"{cut.value}-{i % 20}") for i in range(40)]
            submit_results = await asyncio.gather(*(store.submit(request) for request in requests))
            answers = {
                (r.idempotency_key, submitted.response) for r, submitted in zip(requests, submit_results, strict=True)
            }
            assert len(answers) == 20, "two answers for one key"
    assert rows(postgres_database, "SELECT count(*) FROM inbox_jobs") == [(60,)]
    check(postgres_database)


@CUTS
async def test_a_transaction_that_is_cut_in_its_middle_leaves_nothing_and_is_run_again(
    postgres_database: str, cut: Cut
) -> None:
    async with proxied(postgres_database) as (proxy, url), opened(url) as store:
        trap = proxy.cut("idempotency_keys", cut)
        submitted = await store.submit(Submission(type="t", idempotency_key="k"))
        assert trap.sprung.is_set()
        assert rows(postgres_database, "SELECT CAST(id AS text) FROM inbox_jobs") == [(submitted.job_id,)]
    check(postgres_database)
