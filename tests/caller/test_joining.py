"""A submit inside the caller's transaction lives and dies with it, whatever library the caller uses."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.dependency import Dependency
from euterpe.model.errors import IdempotencyConflict, InvalidInput, JobNotFound, UnknownDependency
from euterpe.model.submitting.batch import Draft, SubmitResult, Unit, drafts_of, new_ids
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.caller import join, target_of
from euterpe.stores.sql.program import Program, one
from euterpe.stores.sql.submitting.submit import submit_joined
from tests.caller.conftest import Scene


def unit_of(**fields: object) -> Unit:
    return Unit(drafts_of([Submission(type="mail", **fields)]))  # type: ignore[arg-type]


async def submit(scene: Scene, **fields: object) -> SubmitResult:
    return (await scene.store.submit_unit_on(unit_of(**fields), scene.caller.connection))[0]


async def test_a_job_is_there_once_the_caller_commits(scene: Scene) -> None:
    await scene.caller.begin()
    submitted = await submit(scene, payload=b'{"to":"ada"}', tags={"team": "a"}, callback_url="https://example.org/")
    await scene.caller.commit()
    job = await scene.store.get(submitted.job_id)
    assert (job.state, job.payload, job.tags) == ("scheduled", b'{"to":"ada"}', {"team": "a"})
    claims = await scene.store.claim(ClaimRequest(worker_id="w", limit=10))
    assert [claim.job.id for claim in claims] == [submitted.job_id]


async def test_nobody_sees_the_job_before_the_commit(scene: Scene) -> None:
    await scene.caller.begin()
    submitted = await submit(scene)
    with pytest.raises(JobNotFound):
        await scene.store.get(submitted.job_id)
    await scene.caller.commit()
    assert (await scene.store.get(submitted.job_id)).id == submitted.job_id


async def test_a_rollback_leaves_nothing_in_any_table(scene: Scene) -> None:
    first = await scene.store.submit(Submission(type="mail"))
    before = await scene.rows()
    await scene.caller.begin()
    await scene.caller.order()
    await submit(scene, idempotency_key="k", depends_on=(first.job_id,), callback_url="https://example.org/")
    await submit(scene)
    await scene.caller.rollback()
    assert await scene.rows() == before


async def test_a_row_of_the_callers_and_its_job_are_stored_together(scene: Scene) -> None:
    await scene.caller.begin()
    await scene.caller.order()
    await submit(scene)
    await scene.caller.commit()
    assert (await scene.orders(), await scene.jobs()) == (1, 1)


async def test_an_unknown_dependency_leaves_the_callers_transaction_usable(scene: Scene) -> None:
    await scene.caller.begin()
    await scene.caller.order()
    with pytest.raises(UnknownDependency):
        await submit(scene, idempotency_key="k", depends_on=(new_ids(1)[0],))
    await scene.caller.order()
    good = await submit(scene, idempotency_key="k")
    await scene.caller.commit()
    assert (await scene.orders(), await scene.jobs()) == (2, 1)
    assert not good.replayed


async def test_an_error_of_the_database_leaves_nothing_behind_and_the_callers_transaction_usable(scene: Scene) -> None:
    def submit_and_fail() -> Program[list[SubmitResult]]:
        submit_results = yield from submit_joined(unit_of(idempotency_key="k"), scene.store.engine.family)
        yield one("pause", kind="nonsense", name="x")  # the table's CHECK refuses it
        return submit_results

    await scene.caller.begin()
    await scene.caller.order()
    with pytest.raises(Exception, match=r"(?i)check constraint"):
        await join(scene.caller.connection).run(submit_and_fail, target_of(scene.store.engine))
    await scene.caller.order()
    await scene.caller.commit()
    rows = await scene.rows()
    assert (len(rows["orders"]), rows["inbox_jobs"], rows["idempotency_keys"]) == (2, [], [])


async def test_a_key_used_for_another_request_leaves_the_callers_transaction_usable(scene: Scene) -> None:
    await scene.store.submit(Submission(type="mail", payload=b"1", idempotency_key="k"))
    await scene.caller.begin()
    with pytest.raises(IdempotencyConflict):
        await submit(scene, payload=b"2", idempotency_key="k")
    await scene.caller.order()
    await scene.caller.commit()
    assert (await scene.orders(), await scene.jobs()) == (1, 1)


async def test_a_key_that_was_used_before_gives_the_first_answer(scene: Scene) -> None:
    first = await scene.store.submit(Submission(type="mail", idempotency_key="k"))
    await scene.caller.begin()
    again = await submit(scene, idempotency_key="k")
    await scene.caller.commit()
    assert again == msgspec.structs.replace(first, replayed=True)
    assert await scene.jobs() == 1


async def test_a_key_used_twice_in_one_transaction_gives_one_job(scene: Scene) -> None:
    await scene.caller.begin()
    first = await submit(scene, idempotency_key="k")
    again = await submit(scene, idempotency_key="k")
    await scene.caller.commit()
    assert (again.job_id, again.replayed) == (first.job_id, True)


async def test_a_submit_elsewhere_with_the_same_key_waits_and_replays_after_the_commit(scene: Scene) -> None:
    await scene.caller.begin()
    submitted = await submit(scene, idempotency_key="k")
    other = asyncio.create_task(scene.store.submit(Submission(type="mail", idempotency_key="k")))
    await asyncio.sleep(0.05)  # Time to go wrong: it must still be waiting.
    assert not other.done()
    await scene.caller.commit()
    assert await other == msgspec.structs.replace(submitted, replayed=True)


async def test_a_submit_elsewhere_with_the_same_key_waits_and_conflicts_after_the_commit(scene: Scene) -> None:
    await scene.caller.begin()
    await submit(scene, idempotency_key="k", payload=b"1")
    other = asyncio.create_task(scene.store.submit(Submission(type="mail", idempotency_key="k", payload=b"2")))
    await asyncio.sleep(0.05)
    assert not other.done()
    await scene.caller.commit()
    with pytest.raises(IdempotencyConflict):
        await other


async def test_a_submit_elsewhere_with_the_same_key_goes_ahead_after_the_rollback(scene: Scene) -> None:
    await scene.caller.begin()
    lost = await submit(scene, idempotency_key="k")
    other = asyncio.create_task(scene.store.submit(Submission(type="mail", idempotency_key="k")))
    await asyncio.sleep(0.05)
    assert not other.done()
    await scene.caller.rollback()
    stored = await other
    assert (stored.job_id != lost.job_id, stored.replayed) == (True, False)


async def test_a_whole_graph_is_stored_in_the_callers_transaction(scene: Scene) -> None:
    first = await scene.store.submit(Submission(type="mail"))
    ids = new_ids(2)
    drafts = (
        Draft(ids[0], Submission(type="mail", depends_on=(first.job_id,))),
        Draft(ids[1], Submission(type="mail", depends_on=(ids[0],), dependency=Dependency.FAN_IN)),
    )
    await scene.caller.begin()
    submit_results = await scene.store.submit_unit_on(Unit(drafts, key="graph"), scene.caller.connection)
    await scene.caller.commit()
    assert [submitted.state for submitted in submit_results] == ["pending", "pending"]
    await scene.store.sweeps.watch_dependencies()
    assert (await scene.store.get(first.job_id)).has_dependents
    assert len((await scene.rows())["job_dependencies"]) == 2


async def test_many_jobs_and_every_kind_of_value_go_through(scene: Scene) -> None:
    submissions = [
        Submission(type="mail", payload=bytes([i]), payload_format="bytes", priority=i % 5, delay_us=i * 3_600_000_000,
                   concurrency_key="k" if i % 2 else None, concurrency_limit=2 if i % 2 else None,
                   correlation_id=f"Ünïcode 🎵 {i}", stages=("claimed", "a", "b"))
        for i in range(40)
    ]  # fmt: skip
    await scene.caller.begin()
    submit_results = await scene.store.submit_unit_on(Unit(drafts_of(submissions)), scene.caller.connection)
    await scene.caller.commit()
    last = await scene.store.get(submit_results[39].job_id)
    assert (last.payload, last.correlation_id) == (bytes([39]), "Ünïcode 🎵 39")
    assert (last.state, last.run_at - last.created_at) == ("delayed", 39 * 3_600_000_000)


async def test_bad_input_is_refused_before_the_connection_is_touched(scene: Scene) -> None:
    before = await scene.rows()
    await scene.caller.begin()
    with pytest.raises(InvalidInput, match="type"):
        await scene.store.submit_unit_on(Unit(drafts_of([Submission(type="")])), scene.caller.connection)
    await scene.caller.rollback()
    assert await scene.rows() == before


async def test_a_job_that_is_kept_for_its_unique_key_does_not_start_before_the_commit(scene: Scene) -> None:
    kept = await scene.store.submit(Submission(type="mail", unique_key="k"))
    await scene.caller.begin()
    await scene.caller.order()
    assert (await submit(scene, unique_key="k")).job_id == kept.job_id
    if scene.store.engine.family == "postgres":  # SQLite's one writer waits for the caller anyway.
        assert await scene.store.claim(ClaimRequest(worker_id="w", limit=10)) == []
    await scene.caller.commit()
    claims = await scene.store.claim(ClaimRequest(worker_id="w", limit=10))
    assert [claim.job.id for claim in claims] == [kept.job_id]
