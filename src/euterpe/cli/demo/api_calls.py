"""Plain HTTP to the demo's API, with its first key."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from euterpe.cli.demo.processes import ApiFacts

TIMEOUT_S = 10.0


def call(
    api: ApiFacts,
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, bytes]:
    """The status and the body of the answer. `path` may be a whole URL of the API."""
    connection = http.client.HTTPConnection(urlsplit(api.address).netloc, timeout=TIMEOUT_S)
    sent = {"Authorization": f"Bearer {api.key}", "Content-Type": "application/json", **(headers or {})}
    target = path.removeprefix(api.address)
    try:
        connection.request(method, target, None if body is None else msgspec.json.encode(body), sent)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
