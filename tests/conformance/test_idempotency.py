"""One key, one job: the same request gets the same answer byte for byte, another request a conflict."""

from __future__ import annotations

import asyncio

import pytest

from euterpe.model.errors import IdempotencyConflict, InvalidInput, UnknownDependency
from euterpe.model.state import State
from euterpe.model.submitting.batch import Draft, new_ids
from euterpe.model.submitting.submission import Submission
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import (
    HOUR,
    complete,
    job,
    release,
    state_of,
    submit,
    take,
    take_one,
    taken,
)
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Opened, Tables, row_counts
from tests.conformance.needs import needs

UNKNOWN = "00000000-0000-4000-8000-000000000000"


async def jobs_stored(tables: Tables) -> int:
    [(count,)] = await tables.run("SELECT COUNT(*) FROM inbox_jobs")
    return int(count)


async def test_the_same_request_with_the_same_key_gets_the_same_answer_byte_for_byte(
    store: SqlStore, clock: FrozenClock, tables: Tables
) -> None:
    first = await store.submit(job(idempotency_key="k", correlation_id="c"))
    clock.advance(hours=5)
    await complete(store, await take_one(store))
    again = await store.submit(job(idempotency_key="k", correlation_id="c"))
    assert (first.replayed, again.replayed) == (False, True)
    assert again.response == first.response
    [(stored,)] = await tables.run("SELECT response FROM idempotency_keys")
    assert bytes(stored) == first.response
    assert await jobs_stored(tables) == 1


@pytest.mark.parametrize("type", ["*batch", "**batch", "batch"])
async def test_no_type_shares_its_keys_with_batches(store: SqlStore, type: str) -> None:
    (batch,) = await store.submit_many([job(type)], key="k")
    alone = await store.submit(job(type, idempotency_key="k"))
    assert (batch.replayed, alone.replayed) == (False, False)
    assert (await store.submit_many([job(type)], key="k"))[0].job_id == batch.job_id
    assert await submit(store, f"*{type}", idempotency_key="k") not in (batch.job_id, alone.job_id)
    assert await submit(store, type, idempotency_key="k") == alone.job_id


async def test_another_request_with_the_same_key_is_a_conflict_and_stores_nothing(
    store: SqlStore, tables: Tables
) -> None:
    first = await store.submit(job(idempotency_key="k"))
    before = await row_counts(tables)
    for other in (job(idempotency_key="k", payload=b"[]"), job(idempotency_key="k", priority=0)):
        with pytest.raises(IdempotencyConflict) as conflict:
            await store.submit(other)
        assert (conflict.value.key, conflict.value.job_id) == ("k", first.job_id)
    assert await row_counts(tables) == before


@needs(Capability.ANY_REQUESTER)
async def test_a_key_belongs_to_one_requester_and_one_job_type(store: SqlStore) -> None:
    ids = [
        await submit(store, "a", idempotency_key="k"),
        await submit(store, "b", idempotency_key="k"),
        await submit(store, "a", idempotency_key="k", requester_id="alice"),
    ]
    assert len(set(ids)) == 3
    assert await submit(store, "a", idempotency_key="k", requester_id="alice") == ids[2]


@needs(Capability.ANY_REQUESTER)
async def test_scopes_cannot_be_confused_by_clever_names(store: SqlStore) -> None:
    one = await submit(store, "b/c", requester_id="a", idempotency_key="k")
    two = await submit(store, "c", requester_id="a/b", idempotency_key="k")
    assert one != two


async def test_jobs_without_a_key_are_never_merged(store: SqlStore) -> None:
    assert await submit(store) != await submit(store)


async def test_fifty_submits_of_one_key_at_once_make_one_job_and_fifty_equal_answers(
    subject: Opened, tables: Tables
) -> None:
    async with subject.another() as other:
        submit_results = await asyncio.gather(
            *((subject.store, other)[i % 2].submit(job(idempotency_key="k")) for i in range(50))
        )
    assert len({submitted.response for submitted in submit_results}) == 1
    assert [submitted.replayed for submitted in submit_results].count(False) == 1
    assert await jobs_stored(tables) == 1


async def test_conflicting_submits_at_once_leave_one_winner(store: SqlStore, tables: Tables) -> None:
    answers = await asyncio.gather(
        *(store.submit(job(idempotency_key="k", priority=i % 5)) for i in range(20)), return_exceptions=True
    )
    submit_results = [a for a in answers if not isinstance(a, BaseException)]
    assert len({r.job_id for r in submit_results}) == 1
    assert len(submit_results) == 4
    assert sum(isinstance(a, IdempotencyConflict) for a in answers) == 16
    assert await jobs_stored(tables) == 1


# --- how long a key lasts ------------------------------------------------------------------------------


async def test_a_key_is_free_again_when_its_window_and_the_jobs_life_are_over(
    store: SqlStore, clock: FrozenClock
) -> None:
    first = await submit(store, idempotency_key="k")
    await complete(store, await take_one(store))
    clock.advance(us=24 * HOUR - 1)
    assert await submit(store, idempotency_key="k") == first
    clock.advance(us=1)
    second = await submit(store, idempotency_key="k")
    assert second != first
    assert await submit(store, idempotency_key="k") == second


async def test_a_key_outlives_its_window_while_the_job_lives(store: SqlStore, clock: FrozenClock) -> None:
    first = await submit(store, idempotency_key="k")
    clock.advance(days=3)
    assert await submit(store, idempotency_key="k") == first
    with pytest.raises(IdempotencyConflict):
        await submit(store, idempotency_key="k", priority=0)


async def test_a_key_lasts_a_day_beyond_the_end_of_its_job(store: SqlStore, clock: FrozenClock) -> None:
    first = await submit(store, idempotency_key="k")
    clock.advance(days=3)
    await complete(store, await take_one(store))
    clock.advance(us=24 * HOUR - 1)
    assert await submit(store, idempotency_key="k") == first
    clock.advance(us=1)
    assert await submit(store, idempotency_key="k") != first


async def test_the_sweep_removes_exactly_the_keys_that_are_free(
    store: SqlStore, clock: FrozenClock, tables: Tables
) -> None:
    await submit(store, "done", idempotency_key="a")
    await complete(store, await take_one(store))
    await submit(store, "live", idempotency_key="b")
    clock.advance(us=24 * HOUR - 1)
    await submit(store, "late", idempotency_key="c")
    assert await store.sweeps.expire_keys() == 0
    clock.advance(us=1)
    assert await store.sweeps.expire_keys() == 1
    assert [row[0] for row in await tables.run("SELECT key FROM idempotency_keys ORDER BY key")] == ["b", "c"]


async def test_a_rejected_submission_frees_its_key(store: SqlStore, tables: Tables) -> None:
    before = await row_counts(tables)
    with pytest.raises(UnknownDependency):
        await submit(store, idempotency_key="k", depends_on=(UNKNOWN,))
    assert await row_counts(tables) == before
    submitted = await store.submit(job(idempotency_key="k"))
    assert not submitted.replayed


# --- batches -------------------------------------------------------------------------------------------


async def test_a_batch_with_a_key_is_stored_once(store: SqlStore, clock: FrozenClock, tables: Tables) -> None:
    first = await store.submit_many([job("a"), job("b")], key="batch")
    clock.advance(hours=1)
    again = await store.submit_many([job("a"), job("b")], key="batch")
    assert [r.response for r in again] == [r.response for r in first]
    assert all(r.replayed for r in again)
    assert await jobs_stored(tables) == 2


async def test_another_batch_with_the_same_key_is_a_conflict(store: SqlStore, tables: Tables) -> None:
    await store.submit_many([job("a"), job("b")], key="batch")
    before = await row_counts(tables)
    for other in ([job("a")], [job("b"), job("a")], [job("a"), job("b", priority=0)]):
        with pytest.raises(IdempotencyConflict):
            await store.submit_many(other, key="batch")
    assert await row_counts(tables) == before


async def test_a_graph_with_a_key_is_the_same_graph_though_its_ids_are_new(store: SqlStore, tables: Tables) -> None:
    def drafts() -> list[Draft]:
        a, b = new_ids(2)
        return [Draft(a, job("a")), Draft(b, job("b", depends_on=(a,)))]

    first = await store.submit_graph(drafts(), key="g")
    again = await store.submit_graph(drafts(), key="g")
    assert [r.job_id for r in again] == [r.job_id for r in first]
    assert await jobs_stored(tables) == 2
    a, b = new_ids(2)
    with pytest.raises(IdempotencyConflict):
        await store.submit_graph([Draft(a, job("a")), Draft(b, job("b"))], key="g")


@needs(Capability.ANY_REQUESTER)
async def test_batch_keys_belong_to_their_requester(store: SqlStore, tables: Tables) -> None:
    await store.submit_many([job(requester_id="alice")], key="k")
    await store.submit_many([job(requester_id="bob", priority=0)], key="k")
    assert await jobs_stored(tables) == 2


@needs(Capability.REPLAY_FLAGS)
async def test_a_batch_may_mix_known_and_new_keys(store: SqlStore, tables: Tables) -> None:
    known = await store.submit(job(idempotency_key="old"))
    submit_results = await store.submit_many([job("x"), job(idempotency_key="old"), job(idempotency_key="new")])
    assert [r.replayed for r in submit_results] == [False, True, False]
    assert submit_results[1].response == known.response
    assert await jobs_stored(tables) == 3
    again = await store.submit(job(idempotency_key="new"))
    assert again.response == submit_results[2].response


async def test_a_conflict_inside_a_batch_keeps_all_of_it_out(store: SqlStore, tables: Tables) -> None:
    await store.submit(job(idempotency_key="old"))
    before = await row_counts(tables)
    with pytest.raises(IdempotencyConflict):
        await store.submit_many([job("x"), job(idempotency_key="new"), job(idempotency_key="old", priority=0)])
    assert await row_counts(tables) == before


async def test_the_same_key_twice_in_one_batch_is_refused(store: SqlStore, tables: Tables) -> None:
    before = await row_counts(tables)
    with pytest.raises(InvalidInput) as refused:
        await store.submit_many([job(idempotency_key="k"), job(idempotency_key="k")])
    assert refused.value.field == "idempotency_key"
    assert await row_counts(tables) == before


@pytest.mark.parametrize("first_is_known", [True, False])
async def test_a_keyed_batch_that_contains_a_known_key_is_replayed_whole(store: SqlStore, first_is_known: bool) -> None:
    known = await store.submit(job("known", idempotency_key="old"))
    batch = [job("known", idempotency_key="old"), job("fresh")]
    if not first_is_known:
        batch.reverse()
    first = await store.submit_many(batch, key="batch")
    again = await store.submit_many(batch, key="batch")
    assert [r.response for r in again] == [r.response for r in first]
    assert known.job_id in [r.job_id for r in again]


@needs(Capability.CHOSEN_IDS)
@needs(Capability.DEPENDENCIES)
async def test_an_edge_to_a_replayed_job_points_to_the_one_that_was_stored(store: SqlStore) -> None:
    known = await store.submit(job("known", idempotency_key="old"))
    a, b = new_ids(2)
    submit_results = await store.submit_graph(
        [Draft(a, job("known", idempotency_key="old")), Draft(b, job("b", depends_on=(a,)))]
    )
    assert submit_results[0].job_id == known.job_id
    assert await state_of(store, b) is State.PENDING
    await complete(store, await take_one(store))
    assert await state_of(store, b) is State.SCHEDULED


async def test_batches_that_share_a_key_and_come_at_once_each_get_whole_answers(
    store: SqlStore, tables: Tables
) -> None:
    answers = await asyncio.gather(
        *(store.submit_many([job("shared", idempotency_key="k"), job(f"own{i}")]) for i in range(10))
    )
    assert len({submit_results[0].job_id for submit_results in answers}) == 1
    assert len({submit_results[1].job_id for submit_results in answers}) == 10
    assert await jobs_stored(tables) == 11


@pytest.mark.parametrize("bad", ["", "k" * 257, "a\x00b", "\ud800", 7])
async def test_a_bad_key_is_refused_and_nothing_is_stored(store: SqlStore, tables: Tables, bad: str) -> None:
    before = await row_counts(tables)
    with pytest.raises(InvalidInput) as refused:
        await store.submit(job(idempotency_key=bad))
    assert refused.value.field == "idempotency_key"
    for submit_batch in (
        store.submit_many([job()], key=bad),
        store.submit_graph([Draft(new_ids(1)[0], job())], key=bad),
    ):
        with pytest.raises(InvalidInput) as refused:
            await submit_batch
        assert refused.value.field == "idempotency_key"
    assert await row_counts(tables) == before


async def test_a_key_of_256_characters_is_accepted(store: SqlStore) -> None:
    key = "\U0001f600" * 256
    assert await submit(store, idempotency_key=key) == await submit(store, idempotency_key=key)


# --- a lost answer -------------------------------------------------------------------------------------


@needs(Capability.CHOSEN_IDS)
async def test_what_a_lost_commit_stored_is_found_again_and_not_stored_twice(store: SqlStore, tables: Tables) -> None:
    """As after CommitUnknown: the rows are there, the answer was lost, the same units come again."""
    from euterpe.model.submitting.batch import Unit, drafts_of
    from euterpe.stores.sql.submitting.submit import submit_again

    urgent = await taken(store, "urgent", priority=0)
    await store.submit(job("known", idempotency_key="old"))
    units = [
        Unit(drafts_of([job("a"), job("b")])),
        Unit(drafts_of([job("c", depends_on=(urgent.job.id,))])),
        Unit(drafts_of([job("d", idempotency_key="k")])),
        Unit(drafts_of([job("known", idempotency_key="old"), job("e")])),
        Unit(drafts_of([job("f"), job("g")]), key="batch"),
    ]
    answers = [await store.submit_unit(unit) for unit in units]
    before = await row_counts(tables)
    fresh = Unit(drafts_of([job("fresh")]))
    again = await store.engine.write(lambda: submit_again([*units, fresh]))
    for first, second in zip(answers, again, strict=False):
        assert isinstance(second, list)
        assert [r.response for r in second] == [r.response for r in first]
    assert isinstance(again[-1], list)
    after = await row_counts(tables)
    # The fresh job is stored once, and where the engine keeps a line, it has one place in it.
    assert after == before | {name: before[name] + 1 for name in ("inbox_jobs", "euterpe_line") if name in before}
    claimed = [claim.job.type for claim in await take(store)]
    assert sorted(claimed) == ["a", "b", "d", "e", "f", "fresh", "g", "known"], "each can be claimed, and once"


async def test_a_replayed_answer_shows_the_job_as_it_was_accepted(store: SqlStore) -> None:
    submission = Submission(type="t", idempotency_key="k", delay_us=HOUR)
    first = await store.submit(submission)
    assert first.state == "delayed"
    await store.cancel(first.job_id)
    assert (await store.submit(submission)).state == "delayed"


async def test_a_key_survives_a_release_of_its_job(store: SqlStore) -> None:
    first = await submit(store, idempotency_key="k")
    await release(store, await take_one(store))
    assert await submit(store, idempotency_key="k") == first
    assert len(await take(store)) == 1


async def cut_off(store: SqlStore, tables: Tables, *, job_too: bool) -> str:
    """What an older release may have left of a cancelled submit: a key without its answer, perhaps without its job."""
    first = await store.submit(job(idempotency_key="k"))
    await tables.run("UPDATE idempotency_keys SET response = NULL")
    if job_too:
        await tables.run("DELETE FROM inbox_jobs")
    return first.job_id


async def test_a_key_whose_submit_was_cut_off_before_its_job_was_stored_is_free(
    store: SqlStore, tables: Tables
) -> None:
    lost = await cut_off(store, tables, job_too=True)
    first = await store.submit(job(idempotency_key="k", payload=b"[1]"))
    again = await store.submit(job(idempotency_key="k", payload=b"[1]"))
    assert (first.replayed, again.replayed) == (False, True)
    assert first.job_id == again.job_id != lost
    assert await jobs_stored(tables) == 1


async def test_a_key_whose_submit_was_cut_off_after_its_job_was_stored_stands_for_that_job(
    store: SqlStore, tables: Tables
) -> None:
    stored = await cut_off(store, tables, job_too=False)
    again = await store.submit(job(idempotency_key="k"))
    assert (again.job_id, again.replayed, again.state) == (stored, True, "scheduled")
    with pytest.raises(IdempotencyConflict):
        await store.submit(job(idempotency_key="k", payload=b"[1]"))
    assert await jobs_stored(tables) == 1


async def test_a_batch_whose_key_has_lost_its_answer_is_refused_in_words(store: SqlStore, tables: Tables) -> None:
    await store.submit_many([job(), job()], key="batch")
    await tables.run("UPDATE idempotency_keys SET response = NULL")
    with pytest.raises(InvalidInput, match="cut off"):
        await store.submit_many([job(), job()], key="batch")
    assert await jobs_stored(tables) == 2
