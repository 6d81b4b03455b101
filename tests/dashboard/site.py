"""A control plane with its dashboard on a real port, and visitors who have signed in to it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html import unescape

import httpx

from euterpe.backends.accounts import api_keys
from euterpe.backends.dashboard import dashboard_reads, sessions
from euterpe.backends.engines import connect
from euterpe.dashboard.dashboard import Dashboard
from euterpe.dashboard.pages.outputs import OpenLocal
from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Outcome, Success
from euterpe.model.job import Claim
from euterpe.model.submitting.submission import Submission
from euterpe.server.app import create_app
from euterpe.server.http.limits import Limits
from euterpe.server.http.uvicorn_server import serve
from euterpe.stores.sql.accounts.keys import ApiKeys
from euterpe.stores.sql.store import SqlStore
from tests.plain_http import NO_CERTIFICATES
from tests.sql_stores import sql

SCOPES = ("submit", "read", "worker", "admin")


@dataclass(slots=True)
class Site:
    """A running dashboard and what is behind it."""

    store: SqlStore
    keys: ApiKeys
    dashboard: Dashboard
    port: int

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def key(self, *scopes: str, requester: str = "vesta") -> str:
        return (await self.keys.create_key(requester, scopes or SCOPES)).key

    @asynccontextmanager
    async def browser(self) -> AsyncIterator[httpx.AsyncClient]:
        """Keeps cookies and goes nowhere by itself."""
        async with httpx.AsyncClient(
            base_url=self.base_url, timeout=30, trust_env=False, verify=NO_CERTIFICATES
        ) as client:
            yield client

    @asynccontextmanager
    async def visitor(self, *scopes: str, requester: str = "vesta") -> AsyncIterator[httpx.AsyncClient]:
        async with self.browser() as client:
            await signed_in(client, await self.key(*scopes, requester=requester))
            yield client

    async def submit(self, **said: object) -> str:
        fields = {"type": "report.render", "requester_id": "vesta", **said}
        return (await self.store.submit(Submission(**fields))).job_id  # type: ignore[arg-type]

    async def claim(self, queue: str = "default", types: tuple[str, ...] | None = None) -> Claim:
        (claim,) = await self.store.claim(ClaimRequest(worker_id="w-1", queues=(queue,), limit=1, types=types))
        return claim

    async def run(self, outcome: Outcome, queue: str = "default", types: tuple[str, ...] | None = None) -> str:
        """Claim the next job and end it so."""
        claim = await self.claim(queue, types)
        await self.store.settle([Report(claim, outcome)])
        return claim.job.id

    async def complete(self) -> str:
        return await self.run(Success(b'"done"'))


async def signed_in(client: httpx.AsyncClient, key: str) -> httpx.Response:
    page = await client.get("/dashboard/sign-in")
    return await client.post("/dashboard/sign-in", data={"csrf": form_token(page.text), "key": key})


def form_token(page: str) -> str:
    match = re.search(r'name="csrf" value="([0-9a-f]{64})"', page)
    assert match, page
    return match[1]


def text_of(page: str) -> str:
    """What a person reads."""
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page)))


@asynccontextmanager
async def running_site(
    url: str, open_local: OpenLocal | None = None, limits: Limits | None = None
) -> AsyncIterator[Site]:
    backend = connect(url)
    await backend.open()
    store, stop = backend.store, asyncio.Event()
    dashboard = Dashboard(
        store,
        backend.wakeups,
        api_keys(store),
        sessions(store),
        dashboard_reads(store),
        draining=stop,
        open_local=open_local,
    )
    app = create_app(store, api_keys(store), limits=limits or Limits(), more_routes=dashboard.routes)
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(app, port=0, stop=stop, started=port.set_result, grace_s=2))
    try:
        yield Site(sql(store), ApiKeys(sql(store).engine), dashboard, await port)
    finally:
        stop.set()
        await serving
        await backend.close()
