"""A name for each request, in our log lines about it and in its answer: the client's own, or a new one."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable
from typing import Final

from euterpe.server.http.asgi import AsgiScope, Message, Send

HEADER: Final = b"x-request-id"
_ACCEPTED: Final = re.compile(rb"[A-Za-z0-9._:-]{1,128}")


def request_id_of(scope: AsgiScope) -> str:
    """The client's, if it is fit for a log line and a header."""
    for name, value in scope["headers"]:
        if name == HEADER and _ACCEPTED.fullmatch(value):
            request_id: str = value.decode()
            return request_id
    return os.urandom(16).hex()


def with_request_id(request_id: str, send: Send) -> Send:
    """The same `send`, whose answer names the request."""

    def send_with_id(message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], (HEADER, request_id.encode())]
        return send(message)

    return send_with_id
