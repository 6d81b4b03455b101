"""Signs one webhook delivery. Pure: the caller brings the time and the nonce.

Two schemes travel side by side: Euterpe's own (hex HMAC-SHA256 over `timestamp.nonce.body`, keyed by the
secret as it is printed) and Standard Webhooks (base64 HMAC-SHA256 over `id.timestamp.body`, keyed by the
decoded secret).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets
from collections.abc import Sequence
from typing import Final

from euterpe.model.errors import EuterpeError

SIGNATURE_HEADER: Final = "x-euterpe-signature"
SECOND_SIGNATURE_HEADER: Final = "x-euterpe-signature-2"
TIMESTAMP_HEADER: Final = "x-euterpe-timestamp"
NONCE_HEADER: Final = "x-euterpe-nonce"
EVENT_ID_HEADER: Final = "x-euterpe-event-id"

STANDARD_ID_HEADER: Final = "webhook-id"
STANDARD_TIMESTAMP_HEADER: Final = "webhook-timestamp"
STANDARD_SIGNATURE_HEADER: Final = "webhook-signature"

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - a prefix, not a secret
MAX_ACTIVE_SECRETS: Final = 2

_SECRET_BYTES: Final = 32
_MIN_SECRET_BYTES: Final = 24  # the lower bound that Standard Webhooks sets for a key
_NONCE_BYTES: Final = 24

# No dot in a nonce: the signed text is `timestamp.nonce.body`, and a nonce with a dot would let an attacker
# move the border between nonce and body without touching the signature, and so dodge the replay check.
NONCE_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{16,128}", re.ASCII)
_EVENT_ID_PATTERN: Final = re.compile(r"[!-~]{1,256}", re.ASCII)
_MAX_TIMESTAMP: Final = 10**11


class InvalidSecret(EuterpeError, ValueError):
    """A webhook secret is not of the form `whsec_<base64>`. The message never repeats the secret."""


def new_secret() -> str:
    """A fresh 256-bit secret, in the form in which it is printed, stored and used."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode("ascii")


def new_nonce() -> str:
    """A fresh 192-bit nonce. Every delivery needs its own, a redelivery of the same event too."""
    return secrets.token_urlsafe(_NONCE_BYTES)


def sign(secret: str | Sequence[str], body: bytes, *, event_id: str, timestamp: int, nonce: str) -> dict[str, str]:
    """The headers of one delivery.

    With two secrets (while one is being rotated) the first signs the contract's `x-euterpe-signature` and the
    second adds `x-euterpe-signature-2`; the Standard Webhooks header lists both signatures in the same order.
    """
    active = active_secrets(secret)
    if len(active) > MAX_ACTIVE_SECRETS:
        raise InvalidSecret(f"secret: at most {MAX_ACTIVE_SECRETS} may be active at once, got {len(active)}")
    _check_parts(body, event_id, timestamp, nonce)

    sent_at = str(timestamp)
    standard_input = f"{event_id}.{sent_at}.".encode("ascii") + body
    headers = {
        SIGNATURE_HEADER: signature(active[0], sent_at, nonce, body),
        TIMESTAMP_HEADER: sent_at,
        NONCE_HEADER: nonce,
        EVENT_ID_HEADER: event_id,
        STANDARD_ID_HEADER: event_id,
        STANDARD_TIMESTAMP_HEADER: sent_at,
        STANDARD_SIGNATURE_HEADER: " ".join(_standard_signature(one, standard_input) for one in active),
    }
    if len(active) == MAX_ACTIVE_SECRETS:
        headers[SECOND_SIGNATURE_HEADER] = signature(active[1], sent_at, nonce, body)
    return headers


def signature(secret: str, timestamp: str, nonce: str, body: bytes) -> str:
    """The contract's signature: hex HMAC-SHA256 over `timestamp.nonce.body`."""
    return hmac.digest(secret.encode(), f"{timestamp}.{nonce}.".encode() + body, "sha256").hex()


def active_secrets(secret: str | Sequence[str]) -> tuple[str, ...]:
    """One secret or several as a tuple, each checked for its form."""
    active = (secret,) if isinstance(secret, str) else tuple(secret)
    if not active:
        raise InvalidSecret("secret: the list is empty; give at least one whsec_ secret")
    for one in active:
        decode_secret(one)
    return active


def decode_secret(secret: str) -> bytes:
    """The key bytes behind `whsec_`, as Standard Webhooks uses them."""
    if not isinstance(secret, str):
        raise InvalidSecret(f"secret: must be a str, got {type(secret).__name__}")
    if not secret.startswith(SECRET_PREFIX):
        hint = "; it begins with white space" if secret[:1].isspace() else ""
        raise InvalidSecret(f"secret: must begin with {SECRET_PREFIX!r}{hint}")
    try:
        key = base64.b64decode(secret[len(SECRET_PREFIX) :], validate=True)
    except (binascii.Error, ValueError):
        hint = " (it ends with white space)" if secret[-1:].isspace() else ""
        raise InvalidSecret(f"secret: what follows {SECRET_PREFIX!r} must be standard base64{hint}") from None
    if len(key) < _MIN_SECRET_BYTES:
        raise InvalidSecret(f"secret: {len(key)} bytes are too few, at least {_MIN_SECRET_BYTES} are needed")
    return key


def _standard_signature(secret: str, standard_input: bytes) -> str:
    digest = hmac.digest(decode_secret(secret), standard_input, "sha256")
    return "v1," + base64.b64encode(digest).decode("ascii")


def _check_parts(body: bytes, event_id: str, timestamp: int, nonce: str) -> None:
    if not isinstance(body, bytes):
        raise TypeError(f"body: must be the raw bytes that are sent, got {type(body).__name__}")
    if type(timestamp) is not int or not 0 < timestamp < _MAX_TIMESTAMP:
        raise ValueError(f"timestamp: must be whole Unix seconds, got {timestamp!r}")
    if not NONCE_PATTERN.fullmatch(nonce):
        raise ValueError("nonce: must be 16 to 128 characters of A-Z a-z 0-9 _ - (use new_nonce())")
    if not _EVENT_ID_PATTERN.fullmatch(event_id):
        raise ValueError(f"event_id: must be 1 to 256 printable ASCII characters, no spaces, got {event_id!r}")
