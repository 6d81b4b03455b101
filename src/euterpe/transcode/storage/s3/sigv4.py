"""AWS Signature Version 4: the headers that sign one request, for S3 and for KMS. Pure: the caller brings the time."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from euterpe.transcode.schema.locations import AccessKeys

UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"
EMPTY_SHA256: Final = hashlib.sha256(b"").hexdigest()
_ALGORITHM: Final = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class SignableRequest:
    """What is signed. The path is percent-encoded already, the query is not."""

    method: str
    host: str
    path: str
    query: Sequence[tuple[str, str]]
    headers: Mapping[str, str]
    payload_sha256: str


def signed_headers(
    request: SignableRequest, keys: AccessKeys, region: str, service: str, now_s: float
) -> dict[str, str]:
    """The request's headers with date, token and authorization."""
    at = datetime.fromtimestamp(now_s, UTC).strftime("%Y%m%dT%H%M%SZ")
    headers = {name.lower(): " ".join(value.split()) for name, value in request.headers.items()}
    headers["x-amz-date"] = at
    if service == "s3":
        headers["x-amz-content-sha256"] = request.payload_sha256
    if keys.session_token:
        headers["x-amz-security-token"] = keys.session_token
    signing = {**headers, "host": request.host}
    names = ";".join(sorted(signing))
    canonical = "\n".join(
        (
            request.method,
            request.path,
            query_string(request.query),
            *(f"{name}:{signing[name]}" for name in sorted(signing)),
            "",
            names,
            request.payload_sha256,
        )
    )
    scope = f"{at[:8]}/{region}/{service}/aws4_request"
    to_sign = "\n".join((_ALGORITHM, at, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    signature = hmac.digest(_signing_key(keys.secret_access_key, scope), to_sign.encode(), "sha256").hex()
    headers["authorization"] = (
        f"{_ALGORITHM} Credential={keys.access_key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return headers


def query_string(query: Sequence[tuple[str, str]]) -> str:
    """Sorted and encoded as it is signed; the same text is sent."""
    return "&".join(f"{name}={value}" for name, value in sorted((encoded(n), encoded(v)) for n, v in query))


def encoded(text: str, *, keep: str = "") -> str:
    """Percent-encoded as the signature wants it: everything but unreserved characters."""
    return quote(text, safe=f"-_.~{keep}")


def _signing_key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
