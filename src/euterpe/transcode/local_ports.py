"""Stand-ins for jobs on local files: no credentials, and no multipart uploads to keep track of."""

from __future__ import annotations

from euterpe.model.failures.failure import Category
from euterpe.transcode.storage.errors import Stage, StorageError
from euterpe.transcode.storage.ports import OpenUpload, Reason, Scope, UploadAttempt, Versioned, VersionedUrl


class NoCredentials:
    """Of a machine's own files: nothing opens them."""

    async def keys(self, scope: Scope) -> Versioned:
        raise self._none(scope)

    async def url(self, output_id: str | None) -> VersionedUrl:
        raise self._none("source" if output_id is None else "destination")

    async def renew(self, scope: Scope, seen: int, reason: Reason) -> None:  # noqa: ARG002  # the port's
        raise self._none(scope)

    async def close(self) -> None:
        return

    @staticmethod
    def _none(scope: Scope) -> StorageError:
        stage = Stage.FETCHING if scope == "source" else Stage.UPLOADING
        return StorageError("credentials.missing", Category.PERMANENT, stage, "there are no credentials here")


class NoUploads:
    """A ledger where nothing is uploaded in parts."""

    async def opened(self, attempt: UploadAttempt, upload: OpenUpload) -> None:
        """Nobody asks later."""

    async def closed(self, attempt: UploadAttempt, upload: OpenUpload) -> None:
        """Likewise."""

    async def left_by_others(self, attempt: UploadAttempt) -> list[OpenUpload]:  # noqa: ARG002  # the port's
        return []
