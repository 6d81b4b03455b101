"""The places that a transcode needs, as circuit breakers know them: the host and bucket of its source and destination.

What goes wrong with a requester's store counts for that store alone. Other stores, and other requesters, go on.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

import msgspec

from euterpe.model.job import JobRow
from euterpe.transcode.schema.locations import (
    DestinationLocation,
    Locations,
    PutUrlDestination,
    S3Destination,
    S3Source,
    SignedUrlSource,
    SourceLocation,
    endpoint_of,
)
from euterpe.transcode.storage.errors import Stage, StorageError

LOCAL: Final = "local"
OF_A_PLACE: Final = ("storage.", "credentials.")
"""Codes that begin so tell of a store, or of what opens it."""
_LOCATIONS: Final = msgspec.json.Decoder(Locations)


def places_of(job: JobRow) -> set[str]:
    locations = _LOCATIONS.decode(job.payload)
    return {place_of(locations.source), place_of(locations.destination)}


def place_of(location: SourceLocation | DestinationLocation) -> str:
    """The URLs of one destination have one host as a rule; the first of them stands for all."""
    match location:
        case S3Source() | S3Destination():
            return f"{_host_of(endpoint_of(location))}/{location.bucket}"
        case SignedUrlSource():
            return _host_of(location.url)
        case PutUrlDestination():
            return _host_of(next(iter(location.urls.values()), ""))
        case _:
            return LOCAL


def failed_place(error: StorageError, source: SourceLocation, destination: DestinationLocation) -> str | None:
    """Which of its places an error is about; None where it is about neither."""
    if not error.code.startswith(OF_A_PLACE):
        return None
    return place_of(source if error.stage is Stage.FETCHING else destination)


def _host_of(url: str) -> str:
    return urlsplit(url).netloc
