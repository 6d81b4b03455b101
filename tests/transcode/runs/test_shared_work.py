"""Who does the work that equal requests share."""

from __future__ import annotations

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.store import SqlStore
from euterpe.transcode.shared_work import KEPT_US, SharedResult, SharedWorkStore
from euterpe.transcode.storage.ports import UploadAttempt
from tests.conformance.clock import FrozenClock

RESULT = SharedResult("out/", {"outputs": []})


async def claimed(jobs: SqlStore, requester: str = "vesta") -> UploadAttempt:
    await jobs.submit(Submission(type="transcode", requester_id=requester))
    (claim,) = await jobs.claim(ClaimRequest(worker_id="w", limit=1, types=("transcode",)))
    return UploadAttempt(claim.job.id, claim.job.claim_version)


async def test_one_claim_does_the_work_and_all_equal_requests_see_its_result(jobs: SqlStore) -> None:
    shared = SharedWorkStore(jobs.engine)
    first, second = await claimed(jobs), await claimed(jobs)
    assert await shared.take("k", first)
    assert await shared.take("k", first), "the same claim may ask again"
    assert not await shared.take("k", second)
    running = await shared.get("k", second.job_id)
    assert running is not None
    assert (running.job_id, running.result) == (first.job_id, None)
    await shared.finish("k", second, RESULT)
    assert (await shared.get("k", second.job_id)) == running, "only who does it can finish it"
    await shared.finish("k", first, RESULT)
    done = await shared.get("k", second.job_id)
    assert done is not None
    assert done.result == RESULT
    assert not await shared.take("k", second)


async def test_a_lost_claim_loses_its_work_and_a_stale_one_takes_none(jobs: SqlStore, clock: FrozenClock) -> None:
    shared = SharedWorkStore(jobs.engine)
    first = await claimed(jobs)
    assert await shared.take("k", first)
    clock.advance(days=1)
    await jobs.sweeps.recover()
    second = await claimed(jobs)
    assert await shared.take("k", second)
    await shared.finish("k", first, RESULT)
    work = await shared.get("k", second.job_id)
    assert work is not None
    assert (work.job_id, work.result) == (second.job_id, None)
    assert not await shared.take("other", first)


async def test_requesters_share_nothing(jobs: SqlStore) -> None:
    shared = SharedWorkStore(jobs.engine)
    mine, yours = await claimed(jobs, "vesta"), await claimed(jobs, "juno")
    assert await shared.take("k", mine)
    await shared.finish("k", mine, RESULT)
    assert await shared.get("k", yours.job_id) is None
    assert await shared.take("k", yours)


async def test_a_result_whose_files_are_gone_is_dropped_once_and_old_ones_are_forgotten(
    jobs: SqlStore, clock: FrozenClock
) -> None:
    shared = SharedWorkStore(jobs.engine)
    first, second = await claimed(jobs), await claimed(jobs)
    await shared.take("k", first)
    await shared.finish("k", first, RESULT)
    done = await shared.get("k", first.job_id)
    assert done is not None
    assert done.done_at is not None
    clock.advance(us=1)
    await shared.drop("k", second.job_id, done.done_at)
    assert await shared.take("k", second)
    await shared.drop("k", first.job_id, done.done_at)
    assert await shared.get("k", second.job_id) is not None, "a newer one stays"
    clock.advance(us=KEPT_US + 1)
    await shared.forget_old()
    assert await shared.get("k", second.job_id) is None


async def test_work_whose_owner_has_ended_without_a_result_is_free(jobs: SqlStore) -> None:
    shared = SharedWorkStore(jobs.engine)
    await jobs.submit(Submission(type="transcode"))
    (claim,) = await jobs.claim(ClaimRequest(worker_id="w", limit=1, types=("transcode",)))
    first = UploadAttempt(claim.job.id, claim.job.claim_version)
    assert await shared.take("k", first)
    await jobs.settle([Report(claim, Success(b"null"))])
    await jobs.submit(Submission(type="transcode"))
    (claim,) = await jobs.claim(ClaimRequest(worker_id="w", limit=1, types=("transcode",)))
    assert await shared.take("k", UploadAttempt(claim.job.id, claim.job.claim_version))
