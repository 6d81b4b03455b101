"""One call to a requester's refresh URL: signed like a webhook, through the same egress, with no secret in it.

The answer only says whether the requester has heard. Credentials in it are not even read: the one way in is the PUT.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from euterpe.egress.client import Egress, EgressReply
from euterpe.egress.errors import EgressError, EgressRefused
from euterpe.model.accounts import UnknownSecret
from euterpe.model.failures.failure import Category
from euterpe.model.failures.http_error import retry_after_us
from euterpe.transcode.credentials.repository import StoredCredentials
from euterpe.transcode.schema.locations import Locations, S3Destination, S3Source, canonical
from euterpe.transcode.storage.errors import Stage, StorageError
from euterpe.transcode.storage.ports import Reason, Scope
from euterpe.webhook.signing import new_nonce, sign

MIN_TTL_S: Final = 900
EVENT_TYPE: Final = "transcode.credentials_needed"
_CALL_S: Final = 15.0
_GONE: Final = frozenset({404, 410})

SecretsOf = Callable[[str], Awaitable[Sequence[str]]]
"""The active webhook secrets of a requester."""


def refresh_id_of(job_id: str, version: int) -> str:
    """The same for every call about one version, by whichever worker: a requester may answer the first and ignore
    the others."""
    return f"rf_{hashlib.sha256(f'{job_id}:{version}'.encode()).hexdigest()[:32]}"


@dataclass(frozen=True, slots=True)
class RefreshCalls:
    """`update_url` makes the URL that fresh credentials are PUT to, from a job's id."""

    egress: Egress
    secrets_of: SecretsOf
    update_url: Callable[[str], str]
    clock: Callable[[], float] = time.time

    async def call(self, stored: StoredCredentials, scope: Scope, reason: Reason) -> None:
        """Returns when the requester has heard. Raises StorageError, permanent where the URL is gone or closed."""
        url = stored.refresh_url
        stage = stage_of(scope)
        if url is None:
            raise StorageError(
                "credentials.no_refresh_url",
                Category.TEMPORARY,
                stage,
                "the credentials were refused, and the job names no refresh_url to ask for fresh ones",
            )
        event_id = refresh_id_of(stored.job_id, stored.version)
        body = msgspec.json.encode(_document(stored, event_id, scope, reason, self.update_url(stored.job_id)))
        try:
            secrets = await self.secrets_of(stored.requester_id)
            headers = sign(secrets, body, event_id=event_id, timestamp=int(self.clock()), nonce=new_nonce())
            reply = await self.egress.post(
                url, body, {"content-type": "application/json", **headers}, deadline_s=_CALL_S
            )
        except UnknownSecret as error:
            raise _failed(stage, str(error)) from None
        except EgressRefused as refusal:
            raise _failed(stage, str(refusal), Category.PERMANENT, "credentials.refresh_refused") from None
        except EgressError as error:
            raise _failed(stage, str(error)) from None
        _check(reply, stage, self.clock())


def stage_of(scope: Scope) -> Stage:
    return Stage.FETCHING if scope == "source" else Stage.UPLOADING


def _document(
    stored: StoredCredentials, refresh_id: str, scope: Scope, reason: Reason, update_url: str
) -> dict[str, Any]:
    return {
        "type": EVENT_TYPE,
        "event_id": refresh_id,
        "refresh_id": refresh_id,
        "job_id": stored.job_id,
        "reason": reason,
        "credential_version": stored.version,
        "needed": {"source": scope == "source", "destination": True},
        "scope": _scope(stored.locations),
        "min_ttl_seconds": MIN_TTL_S,
        "update_url": update_url,
    }


def _scope(locations: Locations) -> dict[str, Any]:
    """What the credentials must be good for."""
    source, destination = canonical(locations.source), canonical(locations.destination)
    allows = {
        "source": {"allow": ["read"], **source} if isinstance(locations.source, S3Source) else source,
        "destination": {"allow": ["write"], **destination}
        if isinstance(locations.destination, S3Destination)
        else destination,
    }
    return allows


def _check(reply: EgressReply, stage: Stage, now_s: float) -> None:
    if 200 <= reply.status < 300:
        return
    if reply.status in _GONE:
        raise _failed(
            stage,
            f"the refresh_url answered {reply.status}",
            Category.PERMANENT,
            "credentials.refresh_gone",
            reply.status,
        )
    error = _failed(stage, f"the refresh_url answered {reply.status}", http_status=reply.status)
    error.retry_after_us = retry_after_us(reply.headers.get("retry-after"), now_s) or None
    raise error


def _failed(
    stage: Stage,
    why: str,
    category: Category = Category.TEMPORARY,
    code: str = "credentials.refresh_failed",
    http_status: int | None = None,
) -> StorageError:
    return StorageError(
        code, category, stage, f"fresh credentials could not be asked for: {why}", http_status=http_status
    )
