"""Transcoding in one process, put together from the configuration: its job type, its routes, its housekeeping."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from euterpe.backends.database import database_of
from euterpe.backends.keychain import key_file_of
from euterpe.config import Config
from euterpe.crypto import Keyring, SealingKeys
from euterpe.crypto.keyring import KEKS_VARIABLE, MODE_VARIABLE
from euterpe.egress.client import Egress
from euterpe.egress.target import EgressPolicy
from euterpe.model.errors import EuterpeError
from euterpe.model.urls.hosts import is_loopback
from euterpe.queue.queue import Queue, core_of
from euterpe.runtime.dumps import forbid_dumps
from euterpe.server.http.router import AnyRoute
from euterpe.server.quotas import Quotas
from euterpe.stores.sql.engine import Engine
from euterpe.transcode.api.routes import TranscodeRoutes, transcode_routes
from euterpe.transcode.credentials.keys import KMS_VARIABLE, credential_keys
from euterpe.transcode.credentials.provider import CredentialProvider, RefreshPolicy
from euterpe.transcode.credentials.refresh import RefreshCalls
from euterpe.transcode.credentials.repository import CredentialStore, SqlUploads
from euterpe.transcode.handler.disk import DiskRoom
from euterpe.transcode.handler.encoders import Encoders
from euterpe.transcode.handler.job import Transcoder, register
from euterpe.transcode.handler.places import CredentialsOf, Places
from euterpe.transcode.handler.workspace import Workspaces
from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.tools import Tools
from euterpe.transcode.samples import make_sample
from euterpe.transcode.shared_work import SharedWorkStore
from euterpe.transcode.storage.local import remove_staging_of_ended
from euterpe.transcode.storage.local_root import LocalRoot
from euterpe.transcode.storage.ports import UploadAttempt, UploadLedger
from euterpe.webhook.settings import egress_policy, secrets_when_needed

log = logging.getLogger("euterpe.transcode")

TIDY_EVERY_S: Final = 15.0


class RefreshMetrics(Protocol):
    def credential_refresh(self, outcome: str, count: int = 1) -> None: ...


class Transcoding:
    """Open it on an open queue, for its whole life."""

    def __init__(
        self,
        config: Config,
        queue: Queue,
        environ: Mapping[str, str] = os.environ,
        metrics: RefreshMetrics | None = None,
    ) -> None:
        """Raises InvalidKeyring where the operator's keys are no good."""
        self._metrics = metrics
        self._config = config
        self._queue = queue
        self._environ = environ
        self._policy = egress_policy(config, queue.url)
        self._egress = Egress(self._policy)
        self._stack = AsyncExitStack()
        url = core_of(queue).backend_url
        # Keys that are no good are told at the start and not at the first request.
        self._keys: SealingKeys = credential_keys(url, environ) if _names_keys(url, environ) else _KeyFile(url)

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._egress)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def register(self, tools: Tools) -> None:
        """Make this process one that transcodes; also removes what workers of this machine left when they died.

        It will hold the storage credentials of its jobs: a program that reads hostile files runs as the same user, and
        must not read its memory.
        """
        forbid_dumps()
        if is_update_url_unreachable(self._config, self._queue.url):
            log.warning(
                "requesters are told to send fresh credentials to this address, which they cannot reach: "
                "set transcode.public_url to the address of the API",
                extra={"host": self._config.api.host, "port": self._config.api.port},
            )
        uploads = SqlUploads(self._database)
        transcoder = transcoder_of(
            self._config, self._queue, tools, self._policy, uploads, self._credentials_of, self._database
        )
        register(self._queue, transcoder, self._config.transcode.queue)

    def routes(self, quotas: Quotas) -> Sequence[AnyRoute]:
        handlers = TranscodeRoutes(
            core_of(self._queue).store,
            self.credentials,
            quotas,
            self._policy,
            self._config.transcode.queue,
            takes_local=bool(self._config.transcode.local_root),
        )
        return transcode_routes(handlers)

    async def tidy_forever(self) -> None:
        """Credentials and drafts of jobs that ended go, however they ended; rows of pruned jobs too."""
        root = local_root_of(self._config)
        while True:
            try:
                await self.credentials.purge_ended()
                await self.credentials.forget_pruned()
                await SharedWorkStore(self._database).forget_old()
                if root is not None:
                    await remove_staging_of_ended(LocalRoot(root), self.credentials.has_ended)
            except EuterpeError as error:
                log.warning("credentials of ended jobs were not purged", extra={"error_code": type(error).__name__})
            await asyncio.sleep(TIDY_EVERY_S)

    async def make_sample(self) -> str | None:
        """A second of sound to try with, where there is none yet; its path below the local root, if there is one."""
        root = local_root_of(self._config)
        try:
            return None if root is None else await asyncio.to_thread(make_sample, root)
        except OSError:
            return None

    @property
    def _database(self) -> Engine:
        return database_of(core_of(self._queue).store)

    @cached_property
    def credentials(self) -> CredentialStore:
        return CredentialStore(self._database, self._keys)

    def _credentials_of(self, attempt: UploadAttempt) -> CredentialProvider:
        policy = RefreshPolicy(ceiling=self._config.transcode.refresh_attempts)
        return CredentialProvider(attempt, self.credentials, self._calls, policy, count=self._count)

    def _count(self, outcome: str) -> None:
        if self._metrics is not None:
            self._metrics.credential_refresh(outcome)

    @cached_property
    def _calls(self) -> RefreshCalls:
        secrets_of = secrets_when_needed(core_of(self._queue).backend_url, core_of(self._queue).store, self._environ)
        return RefreshCalls(self._egress, secrets_of, self._update_url)

    def _update_url(self, job_id: str) -> str:
        api = self._config.api
        base = self._config.transcode.public_url or f"http://{api.host}:{api.port}"
        return f"{base.rstrip('/')}/transcode/{job_id}/credentials"


class _KeyFile:
    """Where nobody named keys: the file beside the database, made when there is something to seal."""

    def __init__(self, url: str) -> None:
        self._url = url

    @cached_property
    def _keyring(self) -> Keyring:
        return Keyring.from_key_file(key_file_of(self._url))

    @property
    def active_kek_id(self) -> str:
        return self._keyring.active_kek_id

    def wrap(self, dek: bytes, associated_data: bytes) -> tuple[str, bytes]:
        return self._keyring.wrap(dek, associated_data)

    def unwrap(self, kek_id: str, wrapped: bytes, associated_data: bytes) -> bytes:
        return self._keyring.unwrap(kek_id, wrapped, associated_data)


def transcoder_of(
    config: Config,
    queue: Queue,
    tools: Tools,
    policy: EgressPolicy,
    uploads: UploadLedger,
    credentials_of: CredentialsOf,
    database: Engine | None = None,
) -> Transcoder:
    """What attempts share in this process; also removes what workers of this machine left when they died."""
    settings = config.transcode
    workspaces = Workspaces(Path(settings.work_dir))
    workspaces.remove_abandoned()
    local_root = local_root_of(config)
    if local_root is not None:
        local_root.mkdir(parents=True, exist_ok=True)

    async def requester_of(job_id: str) -> str:
        return (await core_of(queue).store.get(job_id)).requester_id

    return Transcoder(
        tools=tools,
        limits=MediaLimits(
            max_source_bytes=settings.max_source_bytes,
            max_output_bytes=settings.max_output_bytes,
            max_job_bytes=settings.max_job_bytes,
            max_duration_s=settings.max_duration_us / 1e6,
        ),
        workspaces=workspaces,
        places=Places(policy, local_root, uploads),
        credentials_of=credentials_of,
        encoders=Encoders(settings.concurrency or os.cpu_count() or 1, database),
        disk=DiskRoom(workspaces.root, settings.min_free_bytes),
        requester_of=requester_of,
        database=database,
    )


def is_update_url_unreachable(config: Config, url: str) -> bool:
    """Whether requesters are told to send fresh credentials to an address that only this machine has.

    On loopback beside a database file they are on this machine too."""
    host = config.api.host
    is_everywhere = host in ("", "0.0.0.0", "::")  # noqa: S104  # looked for, not listened on
    is_apart = is_loopback(host) and not url.startswith("sqlite")
    return not config.transcode.public_url and (is_everywhere or is_apart)


def local_root_of(config: Config) -> Path | None:
    """None: no `local` source or destination is allowed."""
    return Path(config.transcode.local_root) if config.transcode.local_root else None


def _names_keys(url: str, environ: Mapping[str, str]) -> bool:
    return any(environ.get(name) for name in (KEKS_VARIABLE, MODE_VARIABLE, KMS_VARIABLE)) or key_file_of(url).exists()
