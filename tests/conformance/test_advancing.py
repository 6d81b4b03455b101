"""News of a running attempt: stages forward only, progress, checkpoints; fenced like every write."""

from __future__ import annotations

import pytest

from euterpe.model.claims.exchange import ProgressUpdate, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.errors import IllegalTransition
from euterpe.model.state import TRANSCODE_STAGES
from euterpe.ports import Capability
from euterpe.stores.remote.store import HttpStore
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import CALLBACK, complete, fail, job, release, take, take_one, taken
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Tables
from tests.conformance.needs import needs


async def test_stages_are_walked_in_their_declared_order(store: SqlStore) -> None:
    claim = await taken(store, stages=TRANSCODE_STAGES)
    for stage in TRANSCODE_STAGES[1:]:
        assert await store.update_progress([ProgressUpdate(claim, stage=stage)]) == [True]
        stored = await store.get(claim.job.id)
        assert (stored.stage, stored.status, stored.state) == (stage, stage, "running")


async def test_no_stage_may_be_passed_over(store: SqlStore) -> None:
    claim = await taken(store, stages=TRANSCODE_STAGES)
    with pytest.raises(IllegalTransition, match="next stage is fetching"):
        await store.update_progress([ProgressUpdate(claim, stage="uploading")])
    assert (await store.get(claim.job.id)).stage == "claimed"


@pytest.mark.parametrize("stage", TRANSCODE_STAGES)
@pytest.mark.parametrize(
    "callback", [None, pytest.param(CALLBACK, marks=needs(Capability.OUTBOX))], ids=["plain", "told"]
)
async def test_a_job_with_stages_completes_from_the_last_only(
    store: SqlStore, stage: str, callback: str | None
) -> None:
    claim = await taken(store, stages=TRANSCODE_STAGES, callback_url=callback)
    for passed in TRANSCODE_STAGES[1 : TRANSCODE_STAGES.index(stage) + 1]:
        await store.update_progress([ProgressUpdate(claim, stage=passed)])
    await complete(store, claim)
    ended = await store.get(claim.job.id)
    if stage == TRANSCODE_STAGES[-1]:
        assert ended.state == "completed"
    elif not isinstance(store, HttpStore):
        assert (ended.state, ended.result) == ("failed", None)
        assert (ended.error_document or {})["code"] == "illegal_transition"
    else:
        assert ended.state == "running", "over HTTP the report is refused"


async def test_others_of_the_batch_complete_beside_one_that_did_not_walk_its_stages(store: SqlStore) -> None:
    claims = [await taken(store, "a"), await taken(store, "b", stages=TRANSCODE_STAGES), await taken(store, "c")]
    await store.settle([Report(claim, Success(b"1")) for claim in claims])
    states = [(await store.get(claim.job.id)).state for claim in claims]
    assert (states[0], states[2]) == ("completed", "completed")
    assert states[1] in ("failed", "running")


async def test_a_stage_never_moves_back(store: SqlStore) -> None:
    claim = await taken(store, stages=TRANSCODE_STAGES)
    await store.update_progress([ProgressUpdate(claim, stage="fetching"), ProgressUpdate(claim, stage="processing")])
    with pytest.raises(IllegalTransition, match="never move back"):
        await store.update_progress([ProgressUpdate(claim, stage="fetching")])
    assert (await store.get(claim.job.id)).stage == "processing"


async def test_a_refused_stage_keeps_the_rest_of_its_news_out_too(store: SqlStore) -> None:
    claim = await taken(store, stages=TRANSCODE_STAGES)
    await store.update_progress(
        [ProgressUpdate(claim, stage="fetching"), ProgressUpdate(claim, stage="processing", progress=10.0)]
    )
    with pytest.raises(IllegalTransition):
        await store.update_progress([ProgressUpdate(claim, stage="fetching", progress=20.0, checkpoint=b"x")])
    stored = await store.get(claim.job.id)
    assert (stored.progress, stored.checkpoint) == (10.0, None)


async def test_an_undeclared_stage_is_refused(store: SqlStore) -> None:
    plain = await taken(store, "plain")
    with pytest.raises(IllegalTransition, match="declared stages are claimed"):
        await store.update_progress([ProgressUpdate(plain, stage="fetching")])
    staged = await taken(store, "staged", stages=("claimed", "chopping", "boiling"))
    with pytest.raises(IllegalTransition, match="chopping"):
        await store.update_progress([ProgressUpdate(staged, stage="frying")])
    assert await store.update_progress([ProgressUpdate(staged, stage="chopping")]) == [True]


async def test_naming_the_present_stage_again_changes_nothing(store: SqlStore, tables: Tables) -> None:
    claim = await taken(store, stages=TRANSCODE_STAGES, callback_url=CALLBACK)
    await store.update_progress([ProgressUpdate(claim, stage="fetching")])
    before = (await store.get(claim.job.id)).transitions
    events = await tables.run("SELECT COUNT(*) FROM job_outbox_events")
    assert await store.update_progress([ProgressUpdate(claim, stage="fetching")]) == [True]
    assert (await store.get(claim.job.id)).transitions == before
    assert await tables.run("SELECT COUNT(*) FROM job_outbox_events") == events


@needs(Capability.RAW_BYTES)
async def test_progress_and_message_are_stored_and_what_is_not_said_stays(store: SqlStore) -> None:
    claim = await taken(store)
    await store.update_progress([ProgressUpdate(claim, progress=12.5, message="warming up", checkpoint=b"\x00\x01")])
    await store.update_progress([ProgressUpdate(claim, progress=50.0)])
    stored = await store.get(claim.job.id)
    assert (stored.progress, stored.progress_message, stored.checkpoint) == (50.0, "warming up", b"\x00\x01")


@needs(Capability.RAW_BYTES)
async def test_a_checkpoint_is_handed_to_the_next_attempt(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    await store.update_progress([ProgressUpdate(claim, checkpoint=b'{"page": 7}')])
    await fail(store, claim)
    clock.advance(minutes=1)
    await store.sweeps.promote()
    assert (await take_one(store)).job.checkpoint == b'{"page": 7}'


@needs(Capability.RAW_BYTES)
async def test_a_checkpoint_survives_a_release_and_a_lost_lease(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    await store.update_progress([ProgressUpdate(claim, checkpoint=b"1")])
    await release(store, claim)
    claim = await take_one(store)
    assert claim.job.checkpoint == b"1"
    await store.update_progress([ProgressUpdate(claim, checkpoint=b"2")])
    clock.advance(minutes=5)
    await store.sweeps.reclaim()
    clock.advance(minutes=5)
    await store.sweeps.promote()
    assert (await take_one(store)).job.checkpoint == b"2"


@needs(Capability.WHOLE_JOBS)
async def test_news_of_a_stale_claim_change_nothing(store: SqlStore) -> None:
    old = await taken(store, stages=TRANSCODE_STAGES)
    await release(store, old)
    new = await take_one(store)
    assert await store.update_progress([ProgressUpdate(old, stage="fetching", progress=99.0, checkpoint=b"old")]) == [
        False
    ]
    assert await store.get(new.job.id) == new.job


async def test_news_of_an_ended_job_change_nothing(store: SqlStore) -> None:
    claim = await taken(store)
    await complete(store, claim)
    before = await store.get(claim.job.id)
    assert await store.update_progress([ProgressUpdate(claim, progress=5.0)]) == [False]
    assert await store.get(claim.job.id) == before


async def test_a_batch_tells_stale_and_good_news_apart(store: SqlStore) -> None:
    await store.submit_many([job() for _ in range(4)])
    claims = await take(store)
    await complete(store, claims[1])
    news = [ProgressUpdate(claim, progress=float(i)) for i, claim in enumerate(claims)]
    assert await store.update_progress(news) == [True, False, True, True]
    assert [(await store.get(c.job.id)).progress for c in claims] == [0.0, None, 2.0, 3.0]


async def test_a_batch_tells_two_claims_of_the_same_job_apart(store: SqlStore) -> None:
    old = await taken(store)
    await release(store, old)
    new = await take_one(store)
    assert await store.update_progress([ProgressUpdate(old, progress=1.0), ProgressUpdate(new, progress=2.0)]) == [
        False,
        True,
    ]
    assert (await store.get(new.job.id)).progress == 2.0


@needs(Capability.RAW_BYTES)
async def test_several_news_of_one_claim_in_one_batch_all_count(store: SqlStore, tables: Tables) -> None:
    claim = await taken(store, stages=TRANSCODE_STAGES, callback_url=CALLBACK)
    news = [
        ProgressUpdate(claim, stage="fetching"),
        ProgressUpdate(claim, progress=10.0),
        ProgressUpdate(claim, stage="processing", checkpoint=b"c"),
        ProgressUpdate(claim, progress=20.0),
    ]
    assert await store.update_progress(news) == [True] * 4
    stored = await store.get(claim.job.id)
    assert (stored.stage, stored.progress, stored.checkpoint) == ("processing", 20.0, b"c")
    rows = await tables.run("SELECT sequence FROM job_outbox_events ORDER BY sequence")
    assert [row[0] for row in rows] == [2, 3, 4]


async def test_no_news_is_no_write(store: SqlStore) -> None:
    assert await store.update_progress([]) == []
