"""What a transcode made: its outputs with their facts, a player for sound that lies here, and its waveform."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, Final

import msgspec

from euterpe.dashboard.layout import TRANSCODES, empty, grid, panel
from euterpe.dashboard.page_server import NoQuery, PageServer
from euterpe.dashboard.parts import html as h
from euterpe.dashboard.parts.charts import waveform
from euterpe.dashboard.parts.formatting import duration, size
from euterpe.dashboard.parts.html import Child, Html
from euterpe.model.errors import EuterpeError, JobNotFound
from euterpe.model.job import JobRow
from euterpe.model.state import State
from euterpe.ports import Store
from euterpe.server.http.asgi import Answer, Header, Request, Stream
from euterpe.server.http.problems import Refusal
from euterpe.server.routes.submissions import job_id_of

JOB_TYPE: Final = "transcode"
PIECE: Final = 1_000_000
"""Bytes of a file that one answer brings; a player asks for the next ones."""
WAVEFORM_BYTES: Final = 200_000
PLAYED: Final = re.compile(r"(audio/[a-z0-9.+-]+|image/(?:png|jpeg))", re.ASCII)
"""What a browser may show as what it is; anything else is bytes."""
_RANGE: Final = re.compile(rb"bytes=(\d{1,15})-(\d{0,15})")

OpenLocal = Callable[[str, str], AbstractContextManager[BinaryIO]]
"""Opens a requester's file below the local root of transcoding, by its key; raises EuterpeError or OSError."""


class Output(msgspec.Struct, frozen=True):
    """What a page needs of one output; the rest is in the result."""

    id: str
    kind: str
    key: str = ""
    bucket: str | None = None
    content_type: str = "application/octet-stream"
    size_bytes: int = 0
    duration_ms: int | None = None
    bit_rate: int | None = None
    codec: str | None = None
    channels: int | None = None
    sample_rate: int | None = None


class _Destination(msgspec.Struct, frozen=True):
    type: str = ""


class _Payload(msgspec.Struct, frozen=True):
    source: dict[str, Any] = {}
    destination: _Destination = _Destination()


class _Result(msgspec.Struct, frozen=True):
    outputs: list[Output] = []


def outputs_of(job: JobRow) -> list[Output]:
    if job.type != JOB_TYPE or job.state is not State.COMPLETED or job.result is None:
        return []
    try:
        return msgspec.json.decode(job.result, type=_Result).outputs
    except (msgspec.MsgspecError, RecursionError):
        return []


def _payload(job: JobRow) -> _Payload:
    try:
        return msgspec.json.decode(job.payload, type=_Payload)
    except (msgspec.MsgspecError, RecursionError):
        return _Payload()


def source_name(job: JobRow) -> str:
    source = _payload(job).source
    name = source.get("path") or source.get("key") or source.get("url") or "unknown"
    return str(name).partition("?")[0]


class LocalOutputs:
    """Outputs in the local root, where this process has one."""

    def __init__(self, server: PageServer, store: Store, open_local: OpenLocal | None) -> None:
        self._server = server
        self._store = store
        self._open = open_local

    def is_here(self, job: JobRow) -> bool:
        return self._open is not None and _payload(job).destination.type == "local"

    async def serve(self, request: Request, _: NoQuery) -> Answer | Stream:
        """A file of a job that the visitor may see, whole or the piece that a player asks for."""
        visitor = await self._server.sign_in.visitor(request)
        if visitor is None:
            raise Refusal(401, "unauthorized", "sign in first")
        job_id = job_id_of(request.parameters["job_id"])
        if job_id is None:
            raise JobNotFound(request.parameters["job_id"][:100])
        job = await self._store.get(job_id, visitor.sees)
        output = dict(enumerate(outputs_of(job))).get(_place(request.parameters["output"]))
        if output is None or not self.is_here(job):
            raise Refusal(404, "not_found", "this job has no such output here")
        try:
            return await self._answer(request, job.requester_id, output)
        except (OSError, EuterpeError):
            raise Refusal(404, "not_found", "the file is not there any more") from None

    async def _answer(self, request: Request, requester_id: str, output: Output) -> Answer | Stream:
        shown = PLAYED.match(output.content_type)
        media_type = shown[1].encode() if shown else b"application/octet-stream"
        headers: tuple[Header, ...] = (
            (b"cache-control", b"private, no-store"),
            (b"x-content-type-options", b"nosniff"),
            (b"content-security-policy", b"default-src 'none'; sandbox; frame-ancestors 'none'"),
            (b"accept-ranges", b"bytes"),
        )
        asked = _RANGE.fullmatch(request.header(b"range") or b"")
        if asked is None:
            await asyncio.to_thread(self._read, requester_id, output.key, 0, 1)  # whether it is there
            return Stream(self._pieces(requester_id, output.key), media_type, headers)
        start = int(asked[1])
        wanted = min(PIECE, int(asked[2]) - start + 1) if asked[2] else PIECE
        piece, whole = await asyncio.to_thread(self._read, requester_id, output.key, start, max(0, wanted))
        if not piece:
            return Answer(416, b"", media_type, (*headers, (b"content-range", b"bytes */%d" % whole)))
        where = b"bytes %d-%d/%d" % (start, start + len(piece) - 1, whole)
        return Answer(206, piece, media_type, (*headers, (b"content-range", where)))

    async def _pieces(self, requester_id: str, key: str) -> AsyncIterator[bytes]:
        start = 0
        while piece := (await asyncio.to_thread(self._read, requester_id, key, start, PIECE))[0]:
            yield piece
            start += len(piece)

    def _read(self, requester_id: str, key: str, start: int, length: int) -> tuple[bytes, int]:
        assert self._open is not None
        with self._open(requester_id, key) as file:
            whole = file.seek(0, 2)
            file.seek(start)
            return file.read(length), whole

    async def panel_of(self, job: JobRow) -> Html | None:
        """Its outputs, for the page of the job."""
        outputs = outputs_of(job)
        if not outputs:
            return None
        here = self.is_here(job)
        drawn = await self._waveform(job.requester_id, outputs) if here else None
        rows = [
            h.tr(
                h.th(output.id, scope="row"),
                h.td(facts_of(output)),
                h.td(h.code(output.key), class_="name"),
                h.td(player(job, place, output) if here else None),
            )
            for place, output in enumerate(outputs)
        ]
        columns: list[Child] = ["Output", "Facts", "Where", "Listen" if here else "Here"]
        told = None if here else empty("The outputs lie in the requester's own storage, not here.")
        return panel("Outputs", drawn, grid(columns, rows, "Outputs"), told)

    async def _waveform(self, requester_id: str, outputs: list[Output]) -> Html | None:
        peaks = next((o for o in outputs if o.kind == "waveform" and o.content_type == "application/json"), None)
        if peaks is None or peaks.size_bytes > WAVEFORM_BYTES:
            return None
        try:
            stored, _ = await asyncio.to_thread(self._read, requester_id, peaks.key, 0, WAVEFORM_BYTES)
            data = msgspec.json.decode(stored, type=dict[str, Any])["data"]
            return waveform([int(value) for value in data])
        except (OSError, EuterpeError, msgspec.MsgspecError, KeyError, TypeError, ValueError):
            return None


def _place(said: str) -> int:
    return int(said) if said.isascii() and said.isdigit() and len(said) < 5 else -1


def facts_of(output: Output) -> str:
    told = [output.codec or output.kind, size(output.size_bytes)]
    if output.duration_ms is not None:
        told.append(duration(output.duration_ms * 1_000))
    if output.bit_rate is not None:
        told.append(f"{output.bit_rate / 1000:.0f} kbit/s")
    if output.sample_rate is not None:
        told.append(f"{output.sample_rate / 1000:g} kHz")
    return " · ".join(told)


def player(job: JobRow, place: int, output: Output) -> Html | None:
    if not output.content_type.startswith("audio/"):
        return None
    address = f"{TRANSCODES}/{job.id}/{place}"
    return h.audio(src=address, controls=True, preload="none", aria_label=f"{output.id} of {source_name(job)}")
