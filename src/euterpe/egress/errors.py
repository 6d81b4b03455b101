"""The two ways in which a call to somebody else's address does not happen, and the bounded list of reasons.

EgressError
├── EgressRefused   we will not make this call: permanent until the URL or the policy changes
└── EgressFailed    we tried and got no whole answer: worth another try later

Messages name the host that the requester wrote and never the address behind it, so that a delivery log tells
nothing about the inside of our network.
"""

from __future__ import annotations

from enum import StrEnum

from euterpe.model.errors import EuterpeError


class EgressRefusal(StrEnum):
    """Why a call was refused. Few and fixed, so that they can be metric labels."""

    BAD_URL = "bad_url"
    BAD_HEADER = "bad_header"
    PORT = "port"
    ADDRESS = "address"
    ANSWER_TOO_LARGE = "answer_too_large"


class EgressFailure(StrEnum):
    """Why a call brought no whole answer."""

    NAME = "name"
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    DISCONNECTED = "disconnected"
    PROTOCOL = "protocol"
    HEADERS_TOO_LARGE = "headers_too_large"


class EgressError(EuterpeError):
    """A call to an address that a requester chose did not happen or did not end well."""


class EgressRefused(EgressError):
    """We will not make this call. Permanent until the URL or the policy changes."""

    def __init__(self, reason: EgressRefusal, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class EgressFailed(EgressError):
    """We tried and got no whole answer. Another try later may succeed."""

    def __init__(self, reason: EgressFailure, message: str) -> None:
        super().__init__(message)
        self.reason = reason
