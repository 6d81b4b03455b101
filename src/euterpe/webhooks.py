"""Verify the webhooks of Euterpe: `verify(headers, body, secret)` and its errors."""

from __future__ import annotations

from euterpe.webhook.nonces import MemoryNonces, NoncesCheckedElsewhere, NonceStore
from euterpe.webhook.signing import InvalidSecret
from euterpe.webhook.verifying import (
    EventIdMismatch,
    InvalidSignature,
    MalformedBody,
    MalformedHeader,
    MissingHeader,
    NonceStoreFull,
    ReplayedNonce,
    StaleTimestamp,
    VerifiedEvent,
    WebhookVerificationError,
    verify,
)

__all__ = [
    "EventIdMismatch",
    "InvalidSecret",
    "InvalidSignature",
    "MalformedBody",
    "MalformedHeader",
    "MemoryNonces",
    "MissingHeader",
    "NonceStore",
    "NonceStoreFull",
    "NoncesCheckedElsewhere",
    "ReplayedNonce",
    "StaleTimestamp",
    "VerifiedEvent",
    "WebhookVerificationError",
    "verify",
]
