"""A submit in the caller's transaction that is cut off: afterwards all of it is there, or nothing, and never half."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Literal, get_args

import pytest

from euterpe.model.submitting.batch import SubmitResult
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.caller import join, target_of
from euterpe.stores.sql.program import Program, Row, one
from euterpe.stores.sql.submitting.submit import submit_joined
from tests.caller.callers import LIBSQL, POSTGRES, SQLITE
from tests.caller.cancelling import Cancelled, Interrupted, When
from tests.caller.conftest import Scene
from tests.caller.test_joining import submit, unit_of

BLOCKING = ["psycopg", "sqlalchemy-psycopg-session", "sqlalchemy-psycopg-connection"]
SUSPENDING = [*POSTGRES, *(name for name in SQLITE if "aiosqlite" in name)]
SYNC = [*BLOCKING, *(name for name in SQLITE if "aiosqlite" not in name), *LIBSQL]
TRIES = 200


async def all_or_nothing(scene: Scene, key: str, *, committed: bool) -> None:
    rows = await scene.rows()
    kept = [row for row in rows["idempotency_keys"] if f"'{key}'" in row]
    jobs = [row for row in rows["inbox_jobs"] if f"'{key}'" in row]
    assert len(kept) == len(jobs), "a key without its job, or a job without its key"
    assert len(rows["orders"]) == (1 if committed else 0), "a row of the caller's was lost, or kept, in silence"
    assert committed or not jobs
    again = await scene.store.submit(Submission(type="mail", idempotency_key=key))
    assert again.replayed == bool(jobs), "the key is of no use any more"


async def commit_or_start_anew(scene: Scene) -> bool:
    """Whether the caller's commit went well. One that raised was loud enough."""
    try:
        await scene.caller.commit()
    except Exception:  # noqa: BLE001  # each library has its own
        with suppress(Exception):
            await scene.caller.close()
        await scene.caller.open()
        return False
    return True


async def begin_with_an_order(scene: Scene) -> None:
    await scene.caller.begin()
    await scene.caller.run(f"DELETE FROM {scene.place.prefix}orders")
    await scene.caller.commit()
    await scene.caller.begin()
    await scene.caller.order()


@pytest.mark.parametrize("when", get_args(When))
@pytest.mark.parametrize("caller_name", SUSPENDING, indirect=True)
async def test_a_submit_cancelled_at_any_point_is_there_whole_or_not_at_all(scene: Scene, when: When) -> None:
    for at in range(1, TRIES):
        await begin_with_an_order(scene)
        cut = Cancelled(submit(scene, idempotency_key=f"k{at}"), at, when)
        with suppress(asyncio.CancelledError):
            await cut.task
        assert await commit_or_start_anew(scene), "the caller's transaction could have gone on"
        await all_or_nothing(scene, f"k{at}", committed=True)
        if not cut.was_cancelled:
            return
    pytest.fail("a submit that suspends two hundred times")


@pytest.mark.parametrize("caller_name", SUSPENDING, indirect=True)
async def test_a_submit_cancelled_between_any_two_of_its_statements_leaves_nothing(scene: Scene) -> None:
    """Also where the statements run in a thread, or in SQLAlchemy's bridge, and the waiting coroutine is cancelled."""
    for at in range(1, TRIES):
        await begin_with_an_order(scene)
        cancelling = _CancelledBetween(scene, f"k{at}", at)
        cancelling.task = asyncio.ensure_future(
            join(scene.caller.connection).run(cancelling.program, target_of(scene.store.engine))
        )
        with suppress(asyncio.CancelledError):
            await cancelling.task
        assert cancelling.task.cancelled() == cancelling.happened
        assert await commit_or_start_anew(scene)
        await all_or_nothing(scene, f"k{at}", committed=True)
        if not cancelling.happened:
            return
    pytest.fail("a submit of two hundred statements")


class _CancelledBetween:
    """A submit that cancels its own task before its n-th statement."""

    task: asyncio.Task[list[SubmitResult]]

    def __init__(self, scene: Scene, key: str, at: int) -> None:
        self._program = submit_joined(unit_of(idempotency_key=key), scene.store.engine.family)
        self._at = at
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.happened = False

    def program(self) -> Program[list[SubmitResult]]:
        statements = 0
        rows: list[Row] = []
        try:
            statement = next(self._program)
            while True:
                statements += 1
                if statements == self._at:
                    self._cancel()
                rows = yield statement
                statement = self._program.send(rows)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # StopIteration carries Any

    def _cancel(self) -> None:
        self.happened = True
        if threading.get_ident() == self._thread:
            self.task.cancel()
            return
        heard = threading.Event()
        self._loop.call_soon_threadsafe(self.task.cancel)
        # Twice round the loop: the first time the cancel reaches the coroutine that waits for this thread.
        self._loop.call_soon_threadsafe(lambda: self._loop.call_soon(heard.set))
        heard.wait(10)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("caller_name", SYNC, indirect=True)
async def test_an_interrupt_at_any_call_leaves_nothing_or_the_commit_says_so(
    scene: Scene, when: Literal["before", "after"]
) -> None:
    """Ctrl-C, or a time limit that is raised as a BaseException: the caller may catch it and commit."""
    for at in range(1, TRIES):
        await begin_with_an_order(scene)
        joined = join(scene.caller.connection)
        whole = joined.calls(
            lambda at=at: submit_joined(unit_of(idempotency_key=f"k{at}"), scene.store.engine.family),  # type: ignore[misc]
            target_of(scene.store.engine),
        )
        interrupted = Interrupted(at, when)
        joined.calls = lambda _make, _home, whole=whole, by=interrupted: by.calls(whole)  # type: ignore[method-assign,misc]
        with suppress(KeyboardInterrupt):
            joined.run_sync(lambda: None, target_of(scene.store.engine))  # type: ignore[arg-type,return-value]
        committed = await commit_or_start_anew(scene)
        await all_or_nothing(scene, f"k{at}", committed=committed)
        if not interrupted.happened:
            assert committed
            return
    pytest.fail("a submit of two hundred calls")


@pytest.mark.parametrize("caller_name", ["asyncpg", "psycopg-async", "sqlalchemy-asyncpg-session"], indirect=True)
async def test_a_cancel_ends_a_submit_that_waits_for_a_lock_which_nobody_lets_go(
    scene: Scene, caller_name: str
) -> None:
    holder = POSTGRES[caller_name](scene.place)
    await holder.open()
    try:
        await holder.begin()
        await scene.store.submit_unit_on(unit_of(idempotency_key="k"), holder.connection)
        await begin_with_an_order(scene)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await submit(scene, idempotency_key="k")
        committed = await commit_or_start_anew(scene)
        assert await scene.orders() == (1 if committed else 0)
    finally:
        await holder.rollback()
        await holder.close()
    assert not (await scene.store.submit(Submission(type="mail", idempotency_key="k"))).replayed


@pytest.mark.parametrize("caller_name", ["libsql"], indirect=True)
async def test_a_libsql_commit_after_a_failed_undo_raises_until_the_caller_rolls_back(scene: Scene) -> None:
    await begin_with_an_order(scene)
    joined = join(scene.caller.connection)

    def spoilt() -> Program[list[SubmitResult]]:
        scene.caller.connection.execute("ROLLBACK")  # The savepoint is gone with it, so there is nothing to undo to.
        yield one("no_such_statement")
        return []

    with pytest.raises(LookupError):
        joined.run_sync(spoilt, target_of(scene.store.engine))
    for _ in range(2):
        with pytest.raises(ValueError, match="constraint failed"):
            await scene.caller.commit()
    await scene.store.submit(Submission(type="mail"))  # Nobody is locked out meanwhile.
    await scene.caller.rollback()
    await scene.caller.begin()
    await scene.caller.order()
    await scene.caller.commit()
    assert await scene.orders() == 1
