"""The whole service on the test's own loop: a real port, a real ffmpeg, and a receiver for the webhooks."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from euterpe.backends.keychain import keyring_for
from euterpe.cli.demo.receiver import Receiver
from euterpe.config import Config, TranscodeConfig
from euterpe.queue.queue import Queue, core_of
from euterpe.server.app import create_app
from euterpe.server.http.uvicorn_server import serve
from euterpe.stores.sql.accounts.enrolment import Enrolment
from euterpe.stores.sql.accounts.keys import ApiKeys
from euterpe.transcode.media.ffmpeg.tools import Tools
from euterpe.transcode.setup import Transcoding
from euterpe.webhook.signing import new_secret
from tests.plain_http import NO_CERTIFICATES
from tests.sql_stores import sql
from tests.worker.inline import work_on

KEK = base64.b64encode(bytes(range(32))).decode()
MP3 = {"id": "mp3", "kind": "audio", "preset": "mp3_128"}
TOMORROW = (datetime.now(UTC).replace(microsecond=1) + timedelta(days=1)).isoformat()
Document = dict[str, Any]


@dataclass
class Studio:
    """A running service and a client for it."""

    url: str
    queue: Queue
    root: Path
    client: httpx.AsyncClient
    receiver: Receiver
    transcoding: Transcoding
    config: Config
    tools: Tools
    _workers: list[tuple[asyncio.Task[None], asyncio.Event]] = field(default_factory=list)

    def body(self, *outputs: Document, **more: Any) -> Document:
        """A request from the local root to the local root, called back."""
        return {
            "source": {"type": "local", "path": "in/a.wav"},
            "destination": {"type": "local", "prefix": "out/"},
            "outputs": list(outputs) or [MP3],
            "status_webhook_url": self.receiver.url,
            **more,
        }

    async def post(self, body: Document, key: str | None = None) -> httpx.Response:
        headers = {} if key is None else {"Idempotency-Key": key}
        return await self.client.post("/transcode", json=body, headers=headers)

    async def accepted(self, body: Document, key: str | None = None) -> str:
        answer = await self.post(body, key)
        assert answer.status_code == 202, answer.text
        job_id: str = answer.json()["job_id"]
        return job_id

    async def status(self, job_id: str) -> Document:
        answer = await self.client.get("/transcode/status", params={"job_id": job_id})
        assert answer.status_code == 200, answer.text
        document: Document = answer.json()
        return document

    async def until(self, job_id: str, *statuses: str, timeout_s: float = 40) -> Document:
        """The status document once it says one of these; the end, where none is named."""
        async with asyncio.timeout(timeout_s):
            while True:
                document = await self.status(job_id)
                if document["status"] in statuses or (document["terminal"] and not statuses):
                    return document
                assert not document["terminal"], document
                await asyncio.sleep(0.02)

    async def told(self, count: int, timeout_s: float = 30) -> list[Document]:
        """The bodies of the verified callbacks, once there are so many."""
        async with asyncio.timeout(timeout_s):
            while len(self.receiver.events) < count:  # noqa: ASYNC110  # the receiver is a thread
                await asyncio.sleep(0.02)
        return [event.payload for event in self.receiver.events]

    def start_worker(self, **options: Any) -> None:
        stop = asyncio.Event()
        settings: Any = {"poll": "50ms", "sweep_interval_s": 0.1, "lease": "5s", **options}
        self._workers.append((asyncio.create_task(work_on(self.queue, 4, stop=stop, **settings)), stop))

    async def stop_workers(self) -> None:
        for _, stop in self._workers:
            stop.set()
        await asyncio.gather(*(task for task, _ in self._workers))
        self._workers.clear()

    def leftovers(self) -> list[Path]:
        """Files of attempts, staged or in work."""
        staged = [path for path in (self.root / ".euterpe-staging").rglob("*") if path.is_file()]
        return staged + [path for path in self.work_dir.rglob("*") if path.is_file()]

    @property
    def work_dir(self) -> Path:
        return Path(self.config.transcode.work_dir)

    def published(self) -> list[str]:
        out = self.root / "out"
        return sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())


def environ_for(url: str) -> dict[str, str]:
    """A database file has its key file beside it; of a server, all processes know the keys."""
    return {"EUTERPE_ENV": "test", **({} if url.startswith("sqlite") else {"EUTERPE_KEKS": f"t1:{KEK}"})}


@asynccontextmanager
async def studio_on(
    url: str,
    folder: Path,
    tools: Tools,
    *,
    register: bool = True,
    change: Callable[[TranscodeConfig], TranscodeConfig] = lambda said: said,
) -> AsyncIterator[Studio]:
    root, work = folder / "objects", folder / "work"
    said = change(replace(TranscodeConfig(), local_root=str(root), work_dir=str(work), concurrency=4))
    config = replace(Config(), transcode=said)
    queue = Queue(url)
    receiver = Receiver()
    async with AsyncExitStack() as stack:
        stack.enter_context(receiver.listening())
        await stack.enter_async_context(queue)
        environ = environ_for(url)
        enrolment = Enrolment(sql(core_of(queue).store).engine, keyring_for(core_of(queue).backend_url, environ))
        created = await enrolment.ensure_first(new_secret())
        assert created is not None
        transcoding = await stack.enter_async_context(Transcoding(config, queue, environ))
        if register:
            transcoding.register(tools)
        keys = ApiKeys(sql(core_of(queue).store).engine)
        app = create_app(
            core_of(queue).store,
            keys,
            job_types=core_of(queue).definitions,
            more_routes=lambda quotas, _: transcoding.routes(quotas),
        )
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()
        serving = asyncio.create_task(serve(app, port=0, stop=stop, started=port.set_result, grace_s=5))
        base = f"http://127.0.0.1:{await port}"
        receiver.secret = created.webhook_secret or ""
        headers = {"Authorization": f"Bearer {created.key}"}
        client = await stack.enter_async_context(
            httpx.AsyncClient(base_url=base, headers=headers, timeout=30, trust_env=False, verify=NO_CERTIFICATES)
        )
        studio = Studio(url, queue, root, client, receiver, transcoding, config, tools)
        try:
            yield studio
        finally:
            await studio.stop_workers()
            stop.set()
            await serving
