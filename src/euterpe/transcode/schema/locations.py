"""Where a source is, where outputs go, and what opens them.

A location names a place and may be stored, shown and hashed. What opens it (access keys, the query of a signed URL, its
headers) lies apart in a `CredentialSet`, which is only ever stored sealed; its parts show nothing of themselves.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

HIDDEN: Final = "***"
STAGING: Final = ".euterpe-staging"
"""The folder below a local root where outputs lie until they are published."""


class AccessKeys(Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """Short-lived keys of an S3 store. `expires_at` is in Unix seconds."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None
    expires_at: int | None = None

    def __repr__(self) -> str:
        return f"AccessKeys({HIDDEN}, expires_at={self.expires_at})"


class SignedUrl(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A URL that carries its own permission, and headers to send with it."""

    url: str
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    expires_at: int | None = None

    @property
    def place(self) -> str:
        """Scheme, host and path: what may be shown."""
        return without_query(self.url)

    def __repr__(self) -> str:
        return f"SignedUrl({self.place!r}, {HIDDEN})"


class CredentialSet(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything secret that a job needs, sealed as one."""

    source: AccessKeys | None = None
    destination: AccessKeys | None = None
    source_url: SignedUrl | None = None
    put_urls: dict[str, SignedUrl] = msgspec.field(default_factory=dict)

    @property
    def expires_at(self) -> int | None:
        """When the first of them is over."""
        parts = (self.source, self.destination, self.source_url, *self.put_urls.values())
        return min(
            (part.expires_at for part in parts if part is not None and part.expires_at is not None), default=None
        )

    def __repr__(self) -> str:
        held = [name for name in ("source", "destination", "source_url") if getattr(self, name) is not None]
        return f"CredentialSet({', '.join(held)}, put_urls={sorted(self.put_urls)}, {HIDDEN})"


class S3Source(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="s3"):
    """`etag` and `sha256` pin what was meant: another version is an error."""

    bucket: str
    key: str
    endpoint: str | None = None
    region: str = "auto"
    etag: str | None = None
    sha256: str | None = None


class SignedUrlSource(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="signed_url"):
    """`url` is without its query here; the whole one is in the credentials."""

    url: str
    etag: str | None = None
    sha256: str | None = None


class LocalSource(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="local"):
    """A file below `transcode.local_root`."""

    path: str
    sha256: str | None = None


class S3Destination(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="s3"):
    bucket: str
    prefix: str = ""
    endpoint: str | None = None
    region: str = "auto"


class LocalDestination(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="local"):
    """A folder below `transcode.local_root`."""

    prefix: str = ""


class PutUrlDestination(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="put_urls"):
    """Each output has a signed URL of its own; here they are without their queries, by output id."""

    urls: dict[str, str]


SourceLocation: TypeAlias = S3Source | SignedUrlSource | LocalSource
DestinationLocation: TypeAlias = S3Destination | LocalDestination | PutUrlDestination


class Locations(Struct, frozen=True, kw_only=True):
    """The two places of a job: what may be stored in its payload."""

    source: SourceLocation
    destination: DestinationLocation


def canonical(location: SourceLocation | DestinationLocation) -> dict[str, Any]:
    """For the request hash: the same place always gives the same document, and no secret is in it."""
    document: dict[str, Any] = msgspec.to_builtins(location)
    if isinstance(location, S3Source | S3Destination):
        document["endpoint"] = endpoint_of(location)
    return document


def endpoint_of(location: S3Source | S3Destination) -> str:
    """Where its store answers. AWS has one endpoint a region; all others name theirs."""
    if location.endpoint is not None:
        return location.endpoint
    return f"https://s3.{location.region}.amazonaws.com"


def without_query(url: str) -> str:
    """Scheme, host and path; empty for what is no URL, which was found to be a problem elsewhere."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}{parts.path}"
