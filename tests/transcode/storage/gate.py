"""A proxy in front of a real S3 that knows session tokens, which rclone does not, and misbehaves on demand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web
from yarl import URL

from euterpe.transcode.schema.locations import AccessKeys
from euterpe.transcode.storage.s3.sigv4 import EMPTY_SHA256, SignableRequest, signed_headers

ANYBODY = AccessKeys(access_key_id="any", secret_access_key="any")
NOT_FORWARDED = {"connection", "keep-alive", "transfer-encoding", "expect"}
CHUNK = 64 * 1024


@dataclass
class Token:
    """What a session token is good for. `uses` counts down to an expiry between two requests."""

    expires_at: float = float("inf")
    can_read: bool = True
    can_write: bool = True
    prefix: str = ""
    uses: int | None = None
    refusal: tuple[int, str] = (400, "ExpiredToken")


@dataclass
class Seen:
    method: str
    key: str
    query: dict[str, str]
    headers: dict[str, str]
    status: int = 0

    @property
    def token(self) -> str | None:
        return self.headers.get("x-amz-security-token")


Matcher = Callable[[Seen], bool]


@dataclass
class Fault:
    """What to do with a request that matches, `times` times."""

    when: Matcher
    times: int = 1
    status: int = 0
    code: str = "InternalError"
    headers: dict[str, str] = field(default_factory=dict)
    cut_answer_after: int | None = None
    """Break the line after so many bytes of the object, or fewer: what the client has not read yet may be lost."""
    kept: list[int] | None = None
    """The client's own count of what it keeps. The line breaks only once it has kept some of this answer."""
    lose_answer: bool = False
    """The store does it, and nobody hears of it."""
    cut_upload_after: int | None = None
    drip_s: float = 0.0
    body: bytes | None = None
    before: Callable[[], None] | None = None


@dataclass
class Gate:
    upstream: str
    tokens: dict[str | None, Token] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    port: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    hold: asyncio.Event | None = None
    """While set to an event, requests that match `held` wait for it, and `reached` says that one is there."""
    held: Matcher = lambda seen: True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def count(self, method: str, **query: str) -> int:
        return sum(1 for s in self.seen if s.method == method and query.items() <= s.query.items())

    def _refusal(self, seen: Seen) -> tuple[int, str] | None:
        if not self.tokens:
            return None
        token = self.tokens.get(seen.token)
        if token is None:
            return 403, "InvalidAccessKeyId"
        if token.uses is not None:
            token.uses -= 1
        if token.expires_at <= time.time() or (token.uses is not None and token.uses < 0):
            return token.refusal
        is_read = seen.method in ("GET", "HEAD")
        allowed = (token.can_read if is_read else token.can_write) and seen.key.startswith(token.prefix)
        return None if allowed else (403, "AccessDenied")

    def _fault(self, seen: Seen) -> Fault | None:
        for fault in self.faults:
            if fault.times > 0 and fault.when(seen):
                fault.times -= 1
                return fault
        return None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        key = request.path.lstrip("/").partition("/")[2]
        headers = {name.lower(): value for name, value in request.headers.items()}
        seen = Seen(request.method, key, dict(request.query), headers)
        self.seen.append(seen)
        if self.hold is not None and self.held(seen):
            self.reached.set()
            await self.hold.wait()
        fault = self._fault(seen)
        if fault is not None and fault.before is not None:
            fault.before()
        refusal = self._refusal(seen)
        if fault is not None and fault.status:
            refusal = (fault.status, fault.code)
        if refusal is None and seen.method == "POST" and "if-match" in seen.headers:
            refusal = await self._completion_refused(request, seen)
        if refusal is not None:
            seen.status = refusal[0]
            await request.read()
            return _error(*refusal, headers=fault.headers if fault else {})
        if fault is not None and fault.cut_upload_after is not None:
            await request.content.readexactly(fault.cut_upload_after)
            return _cut(request)
        return await self._forward(request, seen, fault)

    async def _completion_refused(self, request: web.Request, seen: Seen) -> tuple[int, str] | None:
        """AWS holds a completion against If-Match; moto does so for plain puts only."""
        path = request.raw_path.partition("?")[0]
        head = SignableRequest("HEAD", URL(self.upstream).authority, path, (), {}, EMPTY_SHA256)
        headers = signed_headers(head, ANYBODY, "us-east-1", "s3", time.time())
        async with (
            aiohttp.ClientSession() as session,
            session.head(URL(self.upstream + path, encoded=True), headers=headers) as there,
        ):
            return None if there.headers.get("ETag") == seen.headers["if-match"] else (412, "PreconditionFailed")

    async def _forward(self, request: web.Request, seen: Seen, fault: Fault | None) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in NOT_FORWARDED}
        async with aiohttp.ClientSession(auto_decompress=False) as session:
            data = request.content.iter_chunked(CHUNK) if request.can_read_body else None
            target = URL(self.upstream + request.raw_path, encoded=True)
            async with session.request(request.method, target, headers=headers, data=data) as answer:
                seen.status = answer.status
                if fault is not None and fault.lose_answer:
                    await answer.read()
                    return _cut(request)
                if fault is not None and fault.body is not None:
                    await answer.read()
                    return web.Response(status=200, body=fault.body, content_type="application/xml")
                return await self._answer(request, answer, fault)

    async def _answer(
        self, request: web.Request, answer: aiohttp.ClientResponse, fault: Fault | None
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in NOT_FORWARDED:
                response.headers[name] = value
        await response.prepare(request)
        sent = 0
        kept_before = len(fault.kept) if fault is not None and fault.kept is not None else 0
        async for chunk in answer.content.iter_chunked(CHUNK):
            if fault is not None and fault.cut_answer_after is not None and sent + len(chunk) > fault.cut_answer_after:
                await response.write(chunk[: fault.cut_answer_after - sent])
                while fault.kept is not None and len(fault.kept) == kept_before:  # noqa: ASYNC110  # a plain list
                    await asyncio.sleep(0.005)
                return _cut(request, response)
            if fault is not None and fault.drip_s:
                await asyncio.sleep(fault.drip_s)
            await response.write(chunk)
            sent += len(chunk)
        await response.write_eof()
        return response


def _error(status: int, code: str, headers: dict[str, str]) -> web.Response:
    text = (
        f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>words of the store's own</Message>"
        "<StringToSign>canary-of-the-answer</StringToSign></Error>"
    )
    return web.Response(status=status, text=text, content_type="application/xml", headers=headers)


def _cut(request: web.Request, response: web.StreamResponse | None = None) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return response or web.Response()


@asynccontextmanager
async def gate_to(upstream: str) -> AsyncIterator[Gate]:
    gate = Gate(upstream)
    app = web.Application(client_max_size=2**40)
    app.router.add_route("*", "/{path:.*}", gate.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    gate.port = runner.addresses[0][1]
    try:
        yield gate
    finally:
        if gate.hold is not None:
            gate.hold.set()
        await runner.cleanup()
