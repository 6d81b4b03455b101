"""Transcoding in a role: there where an ffmpeg is, or where the configuration says so, and else not even imported."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Protocol

from euterpe.backends.engines import is_control_plane, is_redis
from euterpe.config import Config
from euterpe.model.errors import EuterpeError
from euterpe.observe.metrics import Metrics
from euterpe.queue.queue import Queue

if TYPE_CHECKING:  # A worker has no server.
    from euterpe.server.http.router import AnyRoute
    from euterpe.server.quotas import Quotas

log = logging.getLogger("euterpe.system")
HAS_FILE_LOCKS: Final = importlib.util.find_spec("fcntl") is not None
"""False on Windows, where transcoding cannot keep two workers out of one folder."""


class TranscodingUnavailable(EuterpeError):
    """The configuration asks for transcoding, and this installation cannot."""


class TranscodingPart(Protocol):
    """What a role does with transcoding."""

    def routes(self, quotas: Quotas) -> Sequence[AnyRoute]: ...

    async def tidy_forever(self) -> None: ...

    async def make_sample(self) -> str | None: ...


def is_wanted(config: Config, url: str) -> bool:
    """Cheap, and imports nothing of it. A worker over HTTP or on Redis lists has no database to keep credentials in; on
    lists it transcodes files of this machine, where somebody asks for that."""
    enabled = config.transcode.enabled
    if is_control_plane(url) or enabled is False:
        return False
    if not HAS_FILE_LOCKS:
        if enabled:
            raise TranscodingUnavailable("transcode.enabled: transcoding needs Unix (Linux, macOS or a BSD)")
        return False
    if is_redis(url):
        return enabled is True or bool(config.producer.presets)
    return enabled is True or has_ffmpeg()


def has_ffmpeg() -> bool:
    return bool(
        os.environ.get("EUTERPE_FFMPEG")
        or shutil.which("ffmpeg")
        or importlib.util.find_spec("imageio_ffmpeg") is not None
    )


@asynccontextmanager
async def transcoding(
    config: Config, queue: Queue, metrics: Metrics, *, works: bool
) -> AsyncIterator[TranscodingPart | None]:
    """On an open queue. With `works`, its workers transcode as well. None: nobody asked for it, and it cannot run."""
    from euterpe.transcode.media.errors import MediaError
    from euterpe.transcode.media.ffmpeg.tools import find_tools

    try:
        tools = await asyncio.to_thread(find_tools) if works else None
    except MediaError as error:
        if config.transcode.enabled or is_redis(queue.url):
            key = "transcode.enabled" if config.transcode.enabled else "producer.presets"
            raise TranscodingUnavailable(f"{key}: {error.message}") from None
        log.warning(
            "transcoding is off, ffmpeg was not found: install it, or `pip install euterpe-queue[transcode]`",
            extra={"error_code": error.code},
        )
        yield None
        return
    if is_redis(queue.url):
        from euterpe.transcode.local_setup import LocalTranscoding

        local = LocalTranscoding(config, queue)
        if tools is not None:
            local.register(tools)
        yield local
        return
    from euterpe.transcode.setup import Transcoding

    async with Transcoding(config, queue, metrics=metrics) as part:
        if tools is not None:
            part.register(tools)
        yield part
