"""Verifies one webhook delivery at the receiver's side: signature, age, event id, replay, in that order.

WebhookVerificationError
├── MissingHeader        a required header is absent (.header)
├── MalformedHeader      a header is there, but not in a form that Euterpe sends (.header)
├── InvalidSignature     no known secret made this signature
├── StaleTimestamp       genuine, but outside the skew window (.skew_s)
├── MalformedBody        genuine, but not a JSON object with an event_id
├── EventIdMismatch      the header's event id is not the body's
├── ReplayedNonce        this very delivery was accepted before
└── NonceStoreFull       the replay check cannot remember more; answer 503 and the delivery comes again
"""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from euterpe.model.errors import EuterpeError
from euterpe.webhook.nonces import MemoryNonces, NonceStore
from euterpe.webhook.signing import (
    EVENT_ID_HEADER,
    NONCE_HEADER,
    NONCE_PATTERN,
    SECOND_SIGNATURE_HEADER,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    active_secrets,
    signature,
)

Headers = Mapping[str, str] | Iterable[tuple[str | bytes, str | bytes]]

DEFAULT_TOLERANCE_S: Final = 300.0
MIN_REPLAY_WINDOW_S: Final = 300.0

_REQUIRED: Final = (SIGNATURE_HEADER, TIMESTAMP_HEADER, NONCE_HEADER, EVENT_ID_HEADER)
_OURS: Final = frozenset((*_REQUIRED, SECOND_SIGNATURE_HEADER))
_TIMESTAMP_PATTERN: Final = re.compile(r"[1-9][0-9]{0,10}", re.ASCII)

_process_nonces: Final = MemoryNonces()


class WebhookVerificationError(EuterpeError):
    """Do not trust this request. The subclass says why. Answer 401, unless the subclass names another status."""


class MissingHeader(WebhookVerificationError):
    """A required header is missing."""

    def __init__(self, header: str) -> None:
        super().__init__(f"{header}: the header is missing; this is not a delivery from Euterpe")
        self.header = header


class MalformedHeader(WebhookVerificationError):
    """A header does not have the form that Euterpe sends."""

    def __init__(self, header: str, why: str) -> None:
        super().__init__(f"{header}: {why}")
        self.header = header


class InvalidSignature(WebhookVerificationError):
    """The signature does not fit any of the secrets."""

    def __init__(self) -> None:
        super().__init__(
            f"{SIGNATURE_HEADER}: no known secret made this signature over this timestamp, nonce and body; "
            "verify the raw bytes as received, before any parsing"
        )


class StaleTimestamp(WebhookVerificationError):
    """The delivery is genuine, but its time is outside of the window: it is late or replayed, or a clock is wrong."""

    def __init__(self, skew_s: float, tolerance_s: float) -> None:
        side = "behind" if skew_s < 0 else "ahead of"
        super().__init__(
            f"{TIMESTAMP_HEADER}: {abs(skew_s):.0f} s {side} this machine's clock, over {tolerance_s:.0f} s"
        )
        self.skew_s = skew_s


class MalformedBody(WebhookVerificationError):
    """The body is genuine but is not a JSON object with an event_id."""

    def __init__(self) -> None:
        super().__init__("body: must be a JSON object with a string event_id")


class EventIdMismatch(WebhookVerificationError):
    """The event id in the header is not the one in the body."""

    def __init__(self) -> None:
        super().__init__(f"{EVENT_ID_HEADER}: differs from the event_id in the signed body")


class ReplayedNonce(WebhookVerificationError):
    """This delivery was already accepted."""

    def __init__(self) -> None:
        super().__init__(f"{NONCE_HEADER}: was already used; a true redelivery has a nonce of its own")


class NonceStoreFull(WebhookVerificationError):
    """The store of nonces is full, so no delivery can be accepted safely. Answer 503."""

    def __init__(self) -> None:
        super().__init__("nonces: the store is full; answer 503, and give it more room or use a shared one")


@dataclass(frozen=True, slots=True)
class VerifiedEvent:
    """A delivery that comes from Euterpe, is unchanged and recent, and was not seen before.

    `event_id` is the same on every delivery of an event: use it to process each event once. `secret_index`
    says which of the given secrets matched: once it is always the new one, the old one can go.
    """

    event_id: str
    timestamp: int
    nonce: str
    nonce_expires_at: float
    payload: dict[str, Any] = field(repr=False)
    secret_index: int


def verify(
    headers: Headers,
    body: bytes,
    secret: str | Sequence[str],
    *,
    nonces: NonceStore | None = None,
    now: float | None = None,
    tolerance_s: float = DEFAULT_TOLERANCE_S,
) -> VerifiedEvent:
    """Check one delivery and return its event. Raises a `WebhookVerificationError` that says what is wrong.

    `secret` may be a list while you rotate a secret. `nonces` is the store of used nonces. The default is a store
    inside this process, which works only for a receiver with one process.
    """
    if not isinstance(body, bytes):
        raise TypeError(f"body: must be the raw bytes as received, got {type(body).__name__}")
    known = active_secrets(secret)
    ours = _our_headers(headers)
    timestamp, nonce = ours[TIMESTAMP_HEADER], ours[NONCE_HEADER]
    if not _TIMESTAMP_PATTERN.fullmatch(timestamp):
        raise MalformedHeader(TIMESTAMP_HEADER, "must be Unix seconds in decimal digits")
    if not NONCE_PATTERN.fullmatch(nonce):
        raise MalformedHeader(NONCE_HEADER, "must be 16 to 128 characters of A-Z a-z 0-9 _ -")

    secret_index = _matching_secret(known, ours, timestamp, nonce, body)

    current = time.time() if now is None else now
    skew_s = int(timestamp) - current
    if abs(skew_s) > tolerance_s:
        raise StaleTimestamp(skew_s, tolerance_s)

    payload = _payload(body)
    if payload["event_id"] != ours[EVENT_ID_HEADER]:
        raise EventIdMismatch

    # A timestamp from a clock ahead of ours stays acceptable for longer than one window from now, so the
    # nonce must be kept until the timestamp itself has left the window.
    expires_at = max(int(timestamp) + tolerance_s, current + MIN_REPLAY_WINDOW_S)
    event = VerifiedEvent(payload["event_id"], int(timestamp), nonce, expires_at, payload, secret_index)
    # Last of all: a forged or broken request must never use up the nonce of a genuine one.
    _remember(_process_nonces if nonces is None else nonces, event, current)
    return event


def _our_headers(headers: Headers) -> dict[str, str]:
    found: dict[str, str] = {}
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    for raw_name, raw_value in pairs:
        name = _text(raw_name).lower()
        if name not in _OURS:
            continue
        value = _text(raw_value)
        if found.setdefault(name, value) != value:
            raise MalformedHeader(name, "appears twice with different values")
    for name in _REQUIRED:
        if name not in found:
            raise MissingHeader(name)
    return found


def _text(raw: str | bytes) -> str:
    return raw.decode("latin-1") if isinstance(raw, bytes) else raw


def _matching_secret(known: tuple[str, ...], ours: dict[str, str], timestamp: str, nonce: str, body: bytes) -> int:
    names = (SIGNATURE_HEADER, SECOND_SIGNATURE_HEADER)
    presented = [ours[name].encode(errors="replace") for name in names if name in ours]
    matched = -1
    # Every secret meets every signature, with no early exit: the time taken tells nothing about which one
    # fits.
    for index, one in enumerate(known):
        expected = signature(one, timestamp, nonce, body).encode()
        for candidate in presented:
            if hmac.compare_digest(expected, candidate) and matched < 0:
                matched = index
    if matched < 0:
        raise InvalidSignature
    return matched


def _payload(body: bytes) -> dict[str, Any]:
    try:
        payload = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise MalformedBody from None
    if not isinstance(payload, dict) or not isinstance(payload.get("event_id"), str):
        raise MalformedBody
    return payload


def _remember(nonces: NonceStore, event: VerifiedEvent, now: float) -> None:
    try:
        replayed = nonces.seen(event.nonce, now=now, expires_at=event.nonce_expires_at)
    except OverflowError:
        raise NonceStoreFull from None
    if replayed:
        raise ReplayedNonce
