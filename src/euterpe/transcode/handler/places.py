"""From a location to the reader or writer that it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from euterpe.egress.target import EgressPolicy
from euterpe.model.failures.failure import Category
from euterpe.transcode.schema.locations import (
    DestinationLocation,
    LocalDestination,
    LocalSource,
    PutUrlDestination,
    S3Destination,
    S3Source,
    SignedUrlSource,
    SourceLocation,
)
from euterpe.transcode.storage.errors import Stage, StorageError
from euterpe.transcode.storage.local import LocalReader, LocalWriter
from euterpe.transcode.storage.local_root import LocalRoot
from euterpe.transcode.storage.ports import Credentials, Destination, Source, UploadAttempt, UploadLedger
from euterpe.transcode.storage.s3.objects import S3SourceReader, S3Writer, connecting
from euterpe.transcode.storage.signed_url import PutUrlWriter, SignedUrlReader


class JobCredentials(Credentials, Protocol):
    """Those of one attempt, until it is over."""

    async def close(self) -> None: ...


CredentialsOf = Callable[[UploadAttempt], JobCredentials]


class Places:
    """The stores of one process, under one policy."""

    def __init__(
        self, policy: EgressPolicy, local_root: Path | None, ledger: UploadLedger, source_root: Path | None = None
    ) -> None:
        """`local_root`: None refuses local places. `source_root`: where local sources lie, if not in the root."""
        self._connect = connecting(policy)
        self._root = None if local_root is None else LocalRoot(local_root)
        self._source_root = None if source_root is None else LocalRoot(source_root)
        self._ledger = ledger

    def source(self, location: SourceLocation, credentials: Credentials, requester_id: str) -> Source:
        match location:
            case S3Source():
                return S3SourceReader(location, credentials, self._connect)
            case SignedUrlSource():
                return SignedUrlReader(location, credentials, self._connect)
            case LocalSource():
                return LocalReader(location, self._source_root or self._local(requester_id, Stage.FETCHING))

    def destination(
        self, location: DestinationLocation, attempt: UploadAttempt, credentials: Credentials, requester_id: str
    ) -> Destination:
        match location:
            case S3Destination():
                return S3Writer(location, attempt, credentials, self._ledger, self._connect)
            case PutUrlDestination():
                return PutUrlWriter(location, credentials, self._connect)
            case LocalDestination():
                return LocalWriter(location, attempt, self._local(requester_id, Stage.UPLOADING))

    def _local(self, requester_id: str, stage: Stage) -> LocalRoot:
        if self._root is None:
            message = "local files are switched off here; the operator sets transcode.local_root to allow them"
            raise StorageError("storage.local_disabled", Category.PERMANENT, stage, message)
        return self._root.of(requester_id)
