"""An HTTP answer that is a refusal, as a handler raises it: its status decides whether a retry can help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

SECOND_US: Final = 1_000_000
LONGEST_WAIT_US: Final = 24 * 3600 * SECOND_US


class HTTPError(Exception):
    """Raise this in a handler after a failed HTTP request. The statuses 423, 429, 500, 502, 503 and 504 are temporary.
    Any other status is permanent.

    A 429 waits two steps of the backoff longer. `Retry-After` wins if it is longer."""

    def __init__(self, status: int, message: str | None = None, retry_after: str | float | None = None) -> None:
        """`retry_after`: as the header says it, in seconds or as an HTTP date."""
        super().__init__(message or f"HTTP {status}")
        self.status = status
        self.message = message or f"HTTP {status}"
        self.retry_after = retry_after

    @classmethod
    def from_response(cls, response: Any, message: str | None = None) -> HTTPError:
        """Make the error from a response of httpx, requests, aiohttp or urllib: any object with a status and
        headers."""
        status = getattr(response, "status_code", None)
        if status is None:
            status = getattr(response, "status", None)
        if not isinstance(status, int) or isinstance(status, bool):
            raise TypeError(f"{type(response).__name__} has no status_code and no status: is it a response?")
        headers = getattr(response, "headers", None)
        return cls(status, message, _header(headers, "retry-after") if headers is not None else None)

    def wait_us(self, now_s: float) -> int | None:
        """The shortest wait in microseconds. None: the response does not say."""
        return None if self.retry_after is None else retry_after_us(str(self.retry_after), now_s)


def _header(headers: Mapping[str, str], name: str) -> str | None:
    """Most libraries do not care about case; a plain dictionary does."""
    value = headers.get(name)
    if value is None:
        value = next((v for k, v in headers.items() if str(k).lower() == name), None)
    return None if value is None else str(value)


def retry_after_us(value: str | None, now_s: float) -> int:
    """Seconds or an HTTP date; what cannot be read, or lies beyond a day, counts as little as it should."""
    if not value:
        return 0
    value = value.strip()
    if value.isascii() and value.replace(".", "", 1).isdigit():
        return min(int(float(value[:9]) * SECOND_US), LONGEST_WAIT_US)
    from email.utils import parsedate_to_datetime  # a dozen modules, which only a date needs

    try:
        wait_s = parsedate_to_datetime(value).timestamp() - now_s
    except (ValueError, TypeError, OverflowError):
        return 0
    return max(0, min(int(wait_s * SECOND_US), LONGEST_WAIT_US))
