"""A libsql server over HTTP. What can be seen without one always runs; the rest needs EUTERPE_TEST_LIBSQL_URL."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import pytest

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Success
from euterpe.model.errors import CommitUnknown, StoreUnavailable, UnknownDependency
from euterpe.model.submitting.batch import new_ids
from euterpe.model.submitting.submission import LATEST_US, Submission
from euterpe.stores.sql.sqlite.libsql import LibsqlEngine
from euterpe.stores.sql.store import SqlStore

VARIABLE = "EUTERPE_TEST_LIBSQL_URL"

# A process of its own: the driver holds the interpreter lock while it waits for the answer.
SERVER = """
import http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_response(int(sys.argv[1]))
        self.end_headers()

    def log_message(self, *args):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.fixture(params=[401, 503])
def status_and_port(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(request.param)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    port = int(process.stdout.readline())
    yield request.param, port
    process.kill()
    process.communicate()


async def test_what_a_server_answers_is_told_without_the_token(status_and_port: tuple[int, int]) -> None:
    status, port = status_and_port
    engine = LibsqlEngine(f"libsql://127.0.0.1:{port}?tls=0&authToken=very.secret")
    with pytest.raises(StoreUnavailable) as told:
        await engine.migrate()
    assert ("check authToken" in str(told.value)) == (status == 401)
    assert "secret" not in f"{told.value} {told.value.__cause__!r} {engine.path}"


async def test_a_server_that_is_away_is_asked_again_until_patience_ends() -> None:
    engine = LibsqlEngine("libsql://127.0.0.1:1?tls=0")
    await engine.open()  # the driver connects when the first statement is sent
    loop = asyncio.get_running_loop()
    started = loop.time()
    with pytest.raises(StoreUnavailable) as told:
        await engine.write(lambda: iter(()), patience_s=0.2)  # type: ignore[arg-type,return-value]
    assert not isinstance(told.value, CommitUnknown)
    assert loop.time() - started >= 0.2
    await engine.close()


@pytest.fixture
async def store() -> AsyncIterator[SqlStore]:
    url = os.environ.get(VARIABLE)
    if not url:
        pytest.skip(f"no libsql server comes from a package; name one in {VARIABLE} to run this")
    store = SqlStore(LibsqlEngine(url))
    await store.engine.migrate()
    await store.open()
    yield store
    await store.close()


async def test_a_server_keeps_the_promises_of_a_file(store: SqlStore) -> None:
    queue = new_ids(1)[0]
    with pytest.raises(UnknownDependency):
        await store.submit(Submission(type="a", queue=queue, depends_on=(new_ids(1)[0],), idempotency_key=queue))
    answers = await asyncio.gather(
        *(store.submit(Submission(type="a", queue=queue, idempotency_key=queue)) for _ in range(20))
    )
    assert len({answer.job_id for answer in answers}) == 1
    far = await store.submit(Submission(type="a", queue=queue, run_at=LATEST_US))
    assert (await store.get(far.job_id)).run_at == LATEST_US
    (claim,) = await store.claim(ClaimRequest(worker_id="w", limit=5, queues=(queue,)))
    (verdict,) = await store.settle([Report(claim, Success(b"1"))])
    assert (verdict.accepted, (await store.get(claim.job.id)).result) == (True, b"1")
