"""A control plane that is killed when it has claimed and not yet answered: its worker tells the next what it holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from euterpe import Queue
from euterpe.backends.engines import connect
from euterpe.model.job import JobRow
from euterpe.model.state import State
from tests.remote.test_worker import working
from tests.server.plane import plane_process
from tests.servers.process import free_port
from tests.worker.floor import until

CLAIMED = b'"claimed":true'
LEASE = ("--lease-s", "60", "--sweep-s", "0.2")
READ_BYTES = 65_536


class Gateway:
    """Passes on what is said. It keeps an answer that brings jobs, if it is told to, until the plane is gone; instead
    of that answer its client gets the end of the connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.keeps_jobs = False
        self.claimed = asyncio.Event()
        """An answer with jobs is there, and nobody has it."""
        self.plane_is_gone = asyncio.Event()

    async def serve(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            plane, requests = await asyncio.open_connection("127.0.0.1", self._port)
            asking = asyncio.create_task(self._pass_on(client, requests))
            try:
                while answer := await plane.read(READ_BYTES):
                    if self.keeps_jobs and CLAIMED in answer:
                        self.keeps_jobs = False
                        self.claimed.set()
                        await self.plane_is_gone.wait()
                        break
                    answers.write(answer)
            finally:
                asking.cancel()
                requests.close()
        answers.close()

    async def _pass_on(self, client: asyncio.StreamReader, requests: asyncio.StreamWriter) -> None:
        while said := await client.read(READ_BYTES):
            requests.write(said)
        requests.close()


@asynccontextmanager
async def before(port: int) -> AsyncIterator[tuple[Gateway, str]]:
    gateway = Gateway(port)
    async with await asyncio.start_server(gateway.serve, "127.0.0.1", 0) as server:
        yield gateway, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def row_of(url: str, job_id: str) -> JobRow:
    backend = connect(url)
    await backend.open()
    try:
        return await backend.store.get(job_id)
    finally:
        await backend.close()


async def test_a_control_plane_killed_before_its_answer_costs_no_attempt_and_no_lease(url: str, key: str) -> None:
    port = free_port()
    may_end = asyncio.Event()
    begun: list[int] = []
    with plane_process(url, *LEASE, port=port) as first:
        async with before(port) as (gateway, address):
            queue = Queue(address, token=key)

            @queue.job("once", max_attempts=1)
            async def once(n: int) -> None:
                begun.append(n)
                await may_end.wait()

            async with queue, working(queue, 4, poll="50ms"):
                runs = await once.submit(n=0)
                await until(lambda: begun == [0], "the first job to begin")
                gateway.keeps_jobs = True
                # The claim may be answered before the submit is: the plane is killed when both are.
                lost = await once.submit(n=1)
                await gateway.claimed.wait()
                first.kill()
                gateway.plane_is_gone.set()
                held = await row_of(url, lost.id)
                assert (held.state, held.attempt_count) == (State.RUNNING, 1), "the claim was committed"
                with plane_process(url, *LEASE, port=port):
                    try:
                        await until(lambda: begun == [0, 1], "the job of the lost claim to begin")
                    finally:
                        may_end.set()
                    for job in (runs, lost):
                        assert (await job.wait("30s")).state is State.COMPLETED
    rows = [await row_of(url, job.id) for job in (runs, lost)]
    assert [(row.attempt_count, row.release_count) for row in rows] == [(1, 0), (1, 1)]
