"""What the routes of transcoding take and give, for their description; requests are read by `request.py`."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta, Struct, field

from euterpe.transcode.schema.locations import LocalDestination, LocalSource, S3Destination, S3Source
from euterpe.transcode.schema.outputs import Output
from euterpe.wire.jobs import RequesterScope


class SignedUrlBody(Struct, kw_only=True, tag_field="type", tag="signed_url"):
    """The URL carries the permission; its query is stored sealed and shown nowhere."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)
    expires_at: str | None = None
    etag: str | None = None
    sha256: str | None = None


class AccessKeysBody(Struct, kw_only=True):
    """Short-lived keys: read of the source, write of the destination's prefix. Stored sealed, shown nowhere."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None
    expires_at: str | None = None


class CredentialsBody(Struct, kw_only=True):
    source: AccessKeysBody | None = None
    destination: AccessKeysBody | None = None


class TranscodeBody(Struct, kw_only=True):
    """A source, where its outputs go, and what they are. Instead of a destination each output may have a `put_url`."""

    source: S3Source | SignedUrlBody | LocalSource
    outputs: Annotated[list[Output], Meta(min_length=1, max_length=50)]
    destination: S3Destination | LocalDestination | None = None
    credentials: CredentialsBody | None = None
    priority: str | int = "normal"
    external_id: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    status_webhook_url: str | None = None
    refresh_url: str | None = None
    max_attempts: Annotated[int, Meta(ge=1, le=100)] = 5
    timeout_seconds: Annotated[int, Meta(ge=1)] = 1800
    not_before: str | None = None
    reuse: bool = False
    """Equal work of the same requester is done once: outputs that are there already are copied."""
    progress_webhook_seconds: Annotated[int, Meta(ge=1, le=3600)] | None = None
    """Call back about progress as well, at most so often."""


class CredentialsUpdate(Struct, kw_only=True):
    """Fresh credentials for the same places: the whole set. `refresh_id` of the call that asked makes it repeatable."""

    credentials: CredentialsBody | None = None
    source: S3Source | SignedUrlBody | LocalSource | None = None
    destination: S3Destination | LocalDestination | None = None
    put_urls: dict[str, str] | None = None
    refresh_id: str | None = None


class StatusQuery(RequesterScope, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job_id: str | None = None


class TranscodeAccepted(Struct, frozen=True, kw_only=True):
    """The same for every repetition of the request, byte for byte."""

    job_id: str
    status: str
    external_id: str | None
    credential_version: int
    status_url: str
    created_at: str
    expected_seconds: float | None
    """How long its run usually takes; null until enough of its kind were run."""


class CredentialsAccepted(Struct, frozen=True, kw_only=True):
    job_id: str
    credential_version: int


class TranscodeStatus(Struct, frozen=True, kw_only=True):
    """`status` is queued, claimed, fetching, processing, uploading, succeeded, failed, dead_letter or cancelled."""

    job_id: str
    status: str
    terminal: bool
    external_id: str | None
    metadata: dict[str, str]
    priority: str
    progress: dict[str, Any] | None
    expected_seconds: float | None
    """Of its whole run, by the length of its source once that is known; null when it has ended."""
    attempt_count: int
    max_attempts: int
    refresh_attempts: int
    credential_version: int | None
    claim_version: int
    worker_id: str | None
    lease_expires_at: str | None
    heartbeat_at: str | None
    next_attempt_at: str | None
    created_at: str
    updated_at: str
    started_at: str | None
    completed_at: str | None
    source: dict[str, Any] | None
    outputs: list[dict[str, Any]] | None
    reused_from: str | None
    """The job whose outputs were copied."""
    warnings: list[dict[str, str]]
    last_error: dict[str, Any] | None
    webhook: dict[str, int]


REQUEST: Final = {
    "source": {"type": "s3", "endpoint": "https://s3.example.com", "bucket": "music", "key": "in/a.flac"},
    "destination": {"type": "s3", "endpoint": "https://s3.example.com", "bucket": "music", "prefix": "out/42/"},
    "credentials": {
        "source": {"access_key_id": "...", "secret_access_key": "...", "session_token": "..."},
        "destination": {"access_key_id": "...", "secret_access_key": "...", "session_token": "..."},
    },
    "outputs": [
        {"id": "mp3", "kind": "audio", "preset": "mp3_320"},
        {"id": "hls", "kind": "hls", "variants": [{"preset": "aac_96"}]},
        {"id": "peaks", "kind": "waveform", "format": "json"},
    ],
    "external_id": "track_42",
    "status_webhook_url": "https://example.com/hooks/euterpe",
    "refresh_url": "https://example.com/hooks/refresh",
}
ACCEPTED: Final = {
    "job_id": "0b0f2f0e-6b1e-4a7e-9a0f-4f6c5d1f2a3b",
    "status": "queued",
    "external_id": "track_42",
    "credential_version": 1,
    "status_url": "/transcode/status?job_id=0b0f2f0e-6b1e-4a7e-9a0f-4f6c5d1f2a3b",
    "created_at": "2026-01-01T00:00:00.000000Z",
    "expected_seconds": 4.2,
}
