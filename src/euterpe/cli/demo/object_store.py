"""The demo's object store: a real S3 (rclone, which checks every signature) behind a gate whose tokens run out."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import os
import re
import secrets
import shutil
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from euterpe.cli.demo.steps import DemoFailed
from euterpe.transcode.schema.locations import AccessKeys
from euterpe.transcode.storage.s3.sigv4 import SignableRequest, signed_headers

BUCKET = "music"
START_TIMEOUT_S = 20.0
NOT_FORWARDED = {"connection", "keep-alive", "transfer-encoding", "expect"}
EXPIRED = b"<?xml version='1.0'?><Error><Code>ExpiredToken</Code><Message>The token has expired.</Message></Error>"


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
    uploads_begun: list[str] = field(default_factory=list)
    """The objects whose multipart uploads were begun."""
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

    def put(self, key: str, path: Path) -> None:
        """What somebody with credentials of their own does before they ask for a transcode."""
        keys = AccessKeys(access_key_id=self.access_key_id, secret_access_key=self.secret_access_key)
        body, target = path.read_bytes(), f"/{BUCKET}/{key}"
        request = SignableRequest("PUT", self._upstream, target, (), {}, hashlib.sha256(body).hexdigest())
        headers = signed_headers(request, keys, "auto", "s3", time.time())
        with self.asked("PUT", target, headers, body) as answer:
            if answer.status != 200:
                raise DemoFailed(f"the store answered {answer.status} to a signed PUT")

    @asynccontextmanager
    async def serving(self, rclone: str, log: Path) -> AsyncIterator[None]:
        (self.folder / BUCKET).mkdir(parents=True)
        async with _rclone(rclone, self, log) as self._upstream:
            gate = ThreadingHTTPServer(("127.0.0.1", 0), _gate(self))
            self.endpoint = f"http://127.0.0.1:{gate.server_address[1]}"
            thread = threading.Thread(target=gate.serve_forever, name="demo-gate", daemon=True)
            thread.start()
            try:
                yield
            finally:
                await asyncio.to_thread(gate.shutdown)
                gate.server_close()

    def lets_in(self, method: str, path: str, query: dict[str, list[str]], token: str | None) -> bool:
        part = query.get("partNumber", [""])[0]
        if part and part == str(self.expires_at_part):
            self.expires_at_part = 0
            self.expire()
        if not self.good_token or token != self.good_token:
            self.refused.append(f"{method} part {part}" if part else method)
            return False
        if method == "POST" and "uploads" in query:
            self.uploads_begun.append(path)
        return True

    @contextmanager
    def asked(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> Iterator[http.client.HTTPResponse]:
        """The answer of rclone itself."""
        connection = http.client.HTTPConnection(self._upstream, timeout=START_TIMEOUT_S)
        try:
            connection.request(method, target, body, dict(headers))
            yield connection.getresponse()
        finally:
            connection.close()


def _gate(store: ObjectStore) -> type[BaseHTTPRequestHandler]:
    class Gate(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            asked = urlsplit(self.path)
            query = parse_qs(asked.query, keep_blank_values=True)
            if not store.lets_in(self.command, asked.path, query, self.headers.get("x-amz-security-token")):
                self.answer(400, {"Content-Type": "application/xml", "Content-Length": str(len(EXPIRED))})
                self.wfile.write(EXPIRED)
                return
            headers = {name: value for name, value in self.headers.items() if name.lower() not in NOT_FORWARDED}
            with store.asked(self.command, self.path, headers, body or None) as answer:
                kept = {name: value for name, value in answer.getheaders() if name.lower() not in NOT_FORWARDED}
                if answer.length is None and self.command != "HEAD":
                    content = answer.read()
                    self.answer(answer.status, {**kept, "Content-Length": str(len(content))})
                    self.wfile.write(content)
                else:
                    self.answer(answer.status, kept)
                    shutil.copyfileobj(answer, self.wfile)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = pass_on

        def answer(self, status: int, headers: Mapping[str, str]) -> None:
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """The demo tells it in its own words."""

    return Gate


@asynccontextmanager
async def _rclone(rclone: str, store: ObjectStore, log: Path) -> AsyncIterator[str]:
    """Runs it on a free port; yields host and port. The keys go by the environment: anybody reads a command line."""
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
    async with asyncio.timeout(START_TIMEOUT_S):
        while process.returncode is None:
            if found := re.search(r"server on \[http://([^\]/]+)", await asyncio.to_thread(log.read_text)):
                return found.group(1)
            await asyncio.sleep(0.05)
    raise DemoFailed("rclone ended by itself; its log is rclone.log")
