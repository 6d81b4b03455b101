"""What handlers logged is kept with their attempts: written with the end of the attempt, bounded, gone with the job."""

from __future__ import annotations

from euterpe.model.claims.attempt_log import BYTES_KEPT, LINES_KEPT, AttemptLog, LogBuffer, LogLine, line_of
from euterpe.model.claims.exchange import Report
from euterpe.model.claims.outcome import Outcome, Success
from euterpe.model.job import Claim
from euterpe.model.retention import Retention
from euterpe.model.state import State
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import end, failure, submit, take_one, taken
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Tables
from tests.conformance.needs import needs


def logged(claim: Claim, outcome: Outcome, *messages: str) -> Report:
    buffer = LogBuffer()
    for message in messages:
        buffer.add(line_of(1_700_000_000_000_000, "info", "shop", message))
    return Report(claim, outcome, 0.0, buffer.stored())


def messages(log: AttemptLog) -> list[str]:
    return [line.message for line in log.lines]


@needs(Capability.LOG_LINES)
async def test_each_attempt_has_its_lines(store: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(store)
    (verdict,) = await store.settle([logged(claim, failure(), "one", "two")])
    assert verdict.state is State.RETRYING
    clock.advance(seconds=60)
    await store.sweeps.promote()
    again = await take_one(store)
    await store.settle([logged(again, Success(b"1"), "three \x00\ud800 <b>")])
    first, second = await store.attempt_logs(claim.job.id)
    assert (first.claim_version, messages(first), first.dropped) == (1, ["one", "two"], 0)
    assert (second.claim_version, messages(second)) == (2, ["three ? <b>"])
    assert first.lines[0] == LogLine(1_700_000_000_000_000, "info", "shop", "one")


@needs(Capability.LOG_LINES)
async def test_a_batch_of_quiet_and_talking_jobs_keeps_the_lines_of_those_that_were_settled(store: SqlStore) -> None:
    quiet, talking, stale = [await taken(store, name) for name in ("a", "b", "c")]
    await end(store, stale, Success(b"1"))
    reports = [Report(quiet, Success(b"1")), logged(talking, Success(b"2"), "here"), logged(stale, Success(), "late")]
    await store.settle(reports)
    assert await store.attempt_logs(quiet.job.id) == []
    assert [messages(log) for log in await store.attempt_logs(talking.job.id)] == [["here"]]
    assert await store.attempt_logs(stale.job.id) == []
    assert (await store.get(talking.job.id)).result == b"2"


@needs(Capability.LOG_LINES)
async def test_a_report_that_comes_again_changes_no_line(store: SqlStore) -> None:
    claim = await taken(store)
    for message in ("first", "second"):
        (verdict,) = await store.settle([logged(claim, Success(b"1"), message)])
        assert verdict.accepted
    assert [messages(log) for log in await store.attempt_logs(claim.job.id)] == [["first"]]


@needs(Capability.LOG_LINES, Capability.OPERATE)
async def test_lines_go_with_their_job(store: SqlStore, clock: FrozenClock, tables: Tables) -> None:
    claim = await taken(store)
    await store.settle([logged(claim, Success(b"1"), "one")])
    waiting = await submit(store)
    clock.advance(seconds=100)
    assert await store.sweeps.prune(Retention(completed_us=1)) == 1
    assert await tables.run("SELECT * FROM euterpe_attempt_logs") == []
    assert await store.attempt_logs(waiting) == []


def test_the_newest_lines_are_kept_and_no_more_than_16_kb() -> None:
    many = LogBuffer()
    for number in range(LINES_KEPT + 3):
        many.add(LogLine(number, "info", "shop", str(number)))
    assert many.stored() is not None
    assert '"dropped":3' in (many.stored() or "")
    assert f'"{LINES_KEPT + 2}"' in (many.stored() or "")
    large = LogBuffer()
    for _ in range(LINES_KEPT):
        large.add(LogLine(1, "info", "shop", "x" * 2_000))
    assert BYTES_KEPT / 2 < len(large.stored() or "") < BYTES_KEPT + 1_000
    assert LogBuffer().stored() is None
