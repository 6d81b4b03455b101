"""A requester: its refresh endpoint checks the signature, and then does what the test wants, if anything."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from euterpe.webhook.signing import new_secret
from euterpe.webhooks import MemoryNonces, verify


@dataclass
class Requester:
    """`on_call` may send fresh credentials; `answers` are the statuses of its calls, the last one for all others."""

    secret: str = field(default_factory=new_secret)
    answers: list[int] = field(default_factory=lambda: [202])
    reply: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    on_call: Callable[[dict[str, Any]], Awaitable[None]] | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    port: int = 0
    nonces: MemoryNonces = field(default_factory=MemoryNonces)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/refresh"

    async def secrets_of(self, requester_id: str) -> list[str]:
        return [self.secret]

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.raw.append(body + repr(dict(request.headers)).encode())
        verify(request.headers, body, self.secret, nonces=self.nonces)
        document = json.loads(body)
        self.calls.append(document)
        status = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if self.on_call is not None and status < 300:
            await self.on_call(document)
        return web.json_response(self.reply, status=status, headers=self.headers)


@asynccontextmanager
async def requester() -> AsyncIterator[Requester]:
    made = Requester()
    app = web.Application()
    app.router.add_post("/refresh", made.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.port = runner.addresses[0][1]
    try:
        yield made
    finally:
        await runner.cleanup()
