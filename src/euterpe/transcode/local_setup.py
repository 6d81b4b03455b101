"""Transcoding of this machine's own files on Redis lists: no database keeps credentials or uploads there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from euterpe.config import Config
from euterpe.model.errors import EuterpeError, JobNotFound
from euterpe.model.state import TERMINAL
from euterpe.queue.queue import Queue, core_of
from euterpe.server.http.router import AnyRoute
from euterpe.server.quotas import Quotas
from euterpe.transcode.handler.job import register
from euterpe.transcode.local_ports import NoCredentials, NoUploads
from euterpe.transcode.media.ffmpeg.tools import Tools
from euterpe.transcode.setup import TIDY_EVERY_S, local_root_of, transcoder_of
from euterpe.transcode.storage.local import remove_staging_of_ended
from euterpe.transcode.storage.local_root import LocalRoot
from euterpe.webhook.settings import egress_policy

log: Final = logging.getLogger("euterpe.transcode")


class LocalTranscoding:
    """From the local root into the local root. A source or destination elsewhere fails: nothing here opens it."""

    def __init__(self, config: Config, queue: Queue) -> None:
        self._config = config
        self._queue = queue

    def register(self, tools: Tools) -> None:
        """Make this process one that transcodes; also removes what workers of this machine left when they died."""
        policy = egress_policy(self._config, self._queue.url)
        transcoder = transcoder_of(
            self._config, self._queue, tools, policy, NoUploads(), lambda _attempt: NoCredentials()
        )
        register(self._queue, transcoder, self._config.transcode.queue)

    def routes(self, quotas: Quotas) -> Sequence[AnyRoute]:  # noqa: ARG002  # as the part has it
        """This engine serves no API."""
        return ()

    async def tidy_forever(self) -> None:
        """Drafts of jobs that ended go, however they ended."""
        root = local_root_of(self._config)
        while True:
            try:
                if root is not None:
                    await remove_staging_of_ended(LocalRoot(root), self._has_ended)
            except EuterpeError as error:
                log.warning("drafts of ended jobs were not removed", extra={"error_code": type(error).__name__})
            await asyncio.sleep(TIDY_EVERY_S)

    async def make_sample(self) -> str | None:
        """There is no API to try it with."""
        return None

    async def _has_ended(self, job_id: str) -> bool:
        """False for a job that is not known: the folder may be shared with another installation."""
        try:
            return (await core_of(self._queue).store.get(job_id)).state in TERMINAL
        except JobNotFound:
            return False
