"""The demo's object store: a real S3 (rclone, which checks every signature) behind a gate whose tokens run out."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web
from yarl import URL

from euterpe.cli.demo.steps import DemoFailed
from euterpe.transcode.schema.locations import AccessKeys
from euterpe.transcode.storage.s3.sigv4 import SignableRequest, signed_headers

BUCKET = "music"
CHUNK = 256 * 1024
START_PATIENCE_S = 20.0
NOT_FORWARDED = {"connection", "keep-alive", "transfer-encoding", "expect"}
EXPIRED = "<?xml version='1.0'?><Error><Code>ExpiredToken</Code><Message>The token has expired.</Message></Error>"


def find_rclone() -> str | None:
    """Beside this Python, where its wheel puts it, or on the PATH."""
    beside = Path(sys.prefix) / "bin" / "rclone"
    return str(beside) if beside.exists() else shutil.which("rclone")


@dataclass(slots=True)
class ObjectStore:
    """What rclone keeps lies in `folder`. Only the newest token opens the gate, until `expire` is called."""

    folder: Path
    access_key_id: str = field(default_factory=lambda: f"AKDEMO{secrets.token_hex(7)}".upper())
    secret_access_key: str = field(default_factory=lambda: secrets.token_urlsafe(30))
    endpoint: str = ""
    issued: list[str] = field(default_factory=list)
    good_token: str = ""
    expires_at_part: int = 0
    """The token runs out when this part of a multipart upload arrives."""
    refused: list[str] = field(default_factory=list)
    """What came with a token that had run out."""
    uploads_begun: int = 0
    _upstream: str = ""

    def issue(self) -> dict[str, str]:
        """Credentials with a fresh token, as a request to Euterpe holds them."""
        self.good_token = secrets.token_urlsafe(24)
        self.issued.append(self.good_token)
        return {
            "access_key_id": self.access_key_id,
            "secret_access_key": self.secret_access_key,
            "session_token": self.good_token,
        }

    def expire(self) -> None:
        self.good_token = ""

    def path_of(self, key: str) -> Path:
        return self.folder / BUCKET / key

    async def put(self, key: str, path: Path) -> None:
        """What somebody with credentials of their own does before they ask for a transcode."""
        keys = AccessKeys(access_key_id=self.access_key_id, secret_access_key=self.secret_access_key)
        body = await asyncio.to_thread(path.read_bytes)
        target, host = f"/{BUCKET}/{key}", URL(self._upstream).authority
        request = SignableRequest("PUT", host, target, (), {}, hashlib.sha256(body).hexdigest())
        headers = signed_headers(request, keys, "auto", "s3", time.time())
        async with (
            aiohttp.ClientSession() as session,
            session.put(self._upstream + target, headers=headers, data=body) as answer,
        ):
            if answer.status != 200:
                raise DemoFailed(f"the store answered {answer.status} to a signed PUT")

    @asynccontextmanager
    async def serving(self, rclone: str, log: Path) -> AsyncIterator[None]:
        (self.folder / BUCKET).mkdir(parents=True)
        async with _rclone(rclone, self, log) as self._upstream:
            app = web.Application(client_max_size=2**40)
            app.router.add_route("*", "/{path:.*}", self._handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
            await runner.setup()
            try:
                await web.TCPSite(runner, "127.0.0.1", 0).start()
                self.endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}"
                yield
            finally:
                await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        part = request.query.get("partNumber", "")
        if part == str(self.expires_at_part):
            self.expires_at_part = 0
            self.expire()
        if not self.good_token or request.headers.get("x-amz-security-token") != self.good_token:
            self.refused.append(f"{request.method} part {part}" if part else request.method)
            return web.Response(status=400, text=EXPIRED, content_type="application/xml")
        self.uploads_begun += request.method == "POST" and "uploads" in request.query
        return await self._forward(request)

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in NOT_FORWARDED}
        body = request.content.iter_chunked(CHUNK) if request.can_read_body else None
        target = URL(self._upstream + request.raw_path, encoded=True)
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(request.method, target, headers=headers, data=body) as answer,
        ):
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in NOT_FORWARDED}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for chunk in answer.content.iter_chunked(CHUNK):
                await response.write(chunk)
            await response.write_eof()
            return response


@asynccontextmanager
async def _rclone(rclone: str, store: ObjectStore, log: Path) -> AsyncIterator[str]:
    """Runs it on a free port; yields its URL. The keys go by the environment: a command line is for all to read."""
    config = store.folder.parent / "rclone.conf"
    config.touch()
    environ = {**os.environ, "RCLONE_AUTH_KEY": f'"{store.access_key_id},{store.secret_access_key}"'}
    command = [rclone, "serve", "s3", "--config", str(config), "--addr", "127.0.0.1:0", str(store.folder)]
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(*command, env=environ, stdout=output, stderr=output)
    try:
        yield await _address_in(log, process)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _address_in(log: Path, process: asyncio.subprocess.Process) -> str:
    async with asyncio.timeout(START_PATIENCE_S):
        while process.returncode is None:
            if found := re.search(r"server on \[(http://[^\]/]+)", await asyncio.to_thread(log.read_text)):
                return found.group(1)
            await asyncio.sleep(0.05)
    raise DemoFailed("rclone ended by itself; its log is rclone.log")
