"""Parts that break something: they freeze, stop half way, fill the disk, or live by a wrong clock."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Awaitable, Callable

from euterpe.model.claims.exchange import Report
from euterpe.model.claims.outcome import Success
from euterpe.model.claims.outcome import settle as decide
from euterpe.model.errors import StoreUnavailable
from euterpe.model.submitting.batch import Unit, drafts_of
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.jobs.settle import settle
from euterpe.stores.sql.program import Program
from euterpe.stores.sql.sqlite.engine import ApswLibrary, ApswSession, SqliteEngine
from euterpe.stores.sql.store import SqlStore
from euterpe.stores.sql.submitting.submit import submit_simple
from tests.faults import actors
from tests.faults.crew import Line
from tests.faults.stores import engine_of, opened, sqlite_path


async def half_a_migration(line: Line, url: str) -> None:
    """Comes as far as the last statement before the commit, and no further."""
    engine = engine_of(url)

    def stop() -> int:
        line.report("half way")
        time.sleep(3600)
        return 0

    engine._now = stop  # type: ignore[union-attr]  # asked for the time of the ledger's row, after the DDL
    await engine.migrate()


async def freezes_inside_a_settle(line: Line, url: str, lease_s: float) -> None:
    """Has written its settlement and is about to commit it when the whole process stands still."""
    async with opened(url) as store:
        store.expect_leases_of(lease_s)
        [claim] = await actors.take(line, store, "frozen:1", 1, 100_000)

        def program() -> Program[object]:
            verdicts = yield from settle([decide(claim.job, Success(), random.Random())], "postgres")
            line.report("half way")
            line.stand_still()
            return verdicts

        try:
            line.report(await store.engine.write(program))
        except StoreUnavailable as gone:
            line.report(str(gone))


async def holds_the_write_lock(line: Line, url: str) -> None:
    """Stands still inside a write transaction in which it has already written."""
    async with opened(url) as store:
        [draft] = drafts_of([Submission(type="unfinished")])

        def program() -> Program[None]:
            yield from submit_simple([Unit((draft,))], store.engine.family)
            line.report("holding")
            line.stand_still()

        await store.engine.write(program)


async def fills_the_disk(line: Line, url: str, limit: str) -> None:
    """Writes until nothing goes any more, tries three kinds of write, makes space, and tries again."""
    library = Watched()
    store = SqlStore(SqliteEngine(sqlite_path(url), library=library))
    await store.open()
    try:
        first = await store.submit(Submission(type="first"))
        line.note("submitted", job_id=first.job_id)
        [claim] = await actors.take(line, store, "full:1", 1)
        _set_disk_limit(library, limit, tight=True)
        refused = await _submit_until_refused(line, store)
        batch = await _refusal(lambda: store.submit_many([_big("batch") for _ in range(50)]))
        settled = await _refusal(lambda: store.settle([Report(claim, Success(b'"%s"' % (b"x" * 900_000)))]))
        _set_disk_limit(library, limit, tight=False)
        again = await store.submit(Submission(type="after"))
        line.note("submitted", job_id=again.job_id)
        [verdict] = await actors.finish(line, store, [Report(claim, Success(b"1"))])
        line.report((refused, batch, settled, [again.state, verdict.accepted]))
    finally:
        await store.close()


async def _submit_until_refused(line: Line, store: SqlStore) -> str:
    for _ in range(2000):
        try:
            submitted = await store.submit(_big("filler"))
            line.note("submitted", job_id=submitted.job_id)
        except StoreUnavailable as full:
            return f"{type(full).__name__}: {full}"
    return "never refused"


async def _refusal(write: Callable[[], Awaitable[object]]) -> str:
    try:
        return f"accepted: {await write()}"
    except StoreUnavailable as full:
        return f"{type(full).__name__}: {full}"


def _big(kind: str) -> Submission:
    return Submission(type=kind, payload=b'"%s"' % (b"x" * 20_000))


class Watched(ApswLibrary):
    """Lets a test reach the writer's own connection."""

    def __init__(self) -> None:
        self.sessions: list[ApswSession] = []

    def connect(self, path: str) -> ApswSession:
        self.sessions.append(super().connect(path))
        return self.sessions[-1]


def _set_disk_limit(library: Watched, limit: str, *, tight: bool) -> None:
    if limit == "pages":
        # The writer is idle between two awaited writes, so its connection is ours for a moment.
        [(pages,)] = library.sessions[0].run("PRAGMA page_count")
        library.sessions[0].run(f"PRAGMA max_page_count = {pages + 100 if tight else 1_000_000}")
        return
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000 if tight else hard, hard))


async def skewed(line: Line, url: str, skew_s: float) -> None:
    """A process whose own clock is wrong: submits, claims and sweeps by it, and reports what it did."""
    true_time, true_time_ns = time.time, time.time_ns
    time.time = lambda: true_time() + skew_s
    time.time_ns = lambda: true_time_ns() + int(skew_s * 1e9)
    async with opened(url) as store:
        submitted = await store.submit(Submission(type="skewed"))
        later = await store.submit(Submission(type="skewed", delay_us=60_000_000))
        claims = await actors.take(line, store, "skewed:1", 10, 30_000_000)
        swept = await store.sweeps.urgent()
        line.report((time.time(), submitted, later, claims, swept))
