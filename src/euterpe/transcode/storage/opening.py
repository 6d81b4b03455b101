"""From a location to what reads or writes there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from euterpe.transcode.locations import (
    DestinationLocation,
    LocalDestination,
    LocalSource,
    PutUrlDestination,
    S3Destination,
    S3Source,
    SignedUrlSource,
    SourceLocation,
)
from euterpe.transcode.storage.local import LocalReader, LocalWriter
from euterpe.transcode.storage.local_root import LocalRoot
from euterpe.transcode.storage.ports import Attempt, Credentials, Destination, Source, UploadLedger
from euterpe.transcode.storage.retrying import Retries
from euterpe.transcode.storage.s3 import Connect, S3SourceReader, S3Writer
from euterpe.transcode.storage.signed_url import PutUrlWriter, SignedUrlReader


@dataclass(frozen=True, slots=True)
class Storage:
    """What the stores of a process have in common; `credentials` are those of the job at hand."""

    connect: Connect
    root: LocalRoot
    ledger: UploadLedger
    retries: Retries

    def source(self, location: SourceLocation, credentials: Credentials) -> Source:
        """Raises StorageError for an address that the egress policy closes."""
        match location:
            case S3Source():
                return S3SourceReader(location, credentials, self.connect, self.retries)
            case SignedUrlSource():
                return SignedUrlReader(location, credentials, self.connect, self.retries)
            case LocalSource():
                return LocalReader(location, self.root)
            case other:
                assert_never(other)

    def destination(self, location: DestinationLocation, attempt: Attempt, credentials: Credentials) -> Destination:
        match location:
            case S3Destination():
                return S3Writer(location, attempt, credentials, self.ledger, self.connect, self.retries)
            case LocalDestination():
                return LocalWriter(location, attempt, self.root)
            case PutUrlDestination():
                return PutUrlWriter(location, credentials, self.connect, self.retries)
            case other:
                assert_never(other)
