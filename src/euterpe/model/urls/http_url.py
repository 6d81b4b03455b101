"""Reads a URL that a requester wrote, strictly. Submit, events and deliveries share this one parser, so that what is
accepted can always be told and sent.

The grammar is narrower than the web's on purpose. Whatever two parsers could read in two ways (user info,
backslashes, decimal or octal addresses, trailing dots, non-ASCII hosts) is refused rather than interpreted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

MAX_URL_LENGTH: Final = 2048
MAX_PORT: Final = 65535

_STANDARD_PORT: Final = {"http": 80, "https": 443}
_MAX_HOST_LENGTH: Final = 253

_URL: Final = re.compile(r"(https?)://([^/?]*)(/[^?]*)?(\?.*)?", re.ASCII | re.IGNORECASE)
_FORBIDDEN: Final = re.compile(r'[^!-~]|[\\"<>^`{|}#]')
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([1-9][0-9]{0,4}))?", re.ASCII)
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMERIC_LABEL: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)


class BadUrl(ValueError):
    """What is wrong with a URL, as the end of a sentence that begins with "the URL"."""


@dataclass(frozen=True, slots=True)
class HttpUrl:
    """A URL taken apart: where to connect, whom to ask for, and what to ask."""

    scheme: str
    host: str  # lower case; an IPv6 literal without its brackets, compressed
    port: int
    path_and_query: str
    is_literal: bool

    @property
    def is_tls(self) -> bool:
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _STANDARD_PORT[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"


@lru_cache(maxsize=1024)
def parse_http_url(url: str) -> HttpUrl:
    """The parts of an http or https URL, or BadUrl with what is wrong with it."""
    if not isinstance(url, str):
        raise BadUrl(f"must be text, got {type(url).__name__}")
    if len(url) > MAX_URL_LENGTH:
        raise BadUrl(f"is longer than {MAX_URL_LENGTH} characters")
    if "#" in url:
        raise BadUrl("has a fragment (#...), which is never sent; remove it")
    if _FORBIDDEN.search(url) or _BROKEN_ESCAPE.search(url):
        raise BadUrl("has a character that must be percent-encoded (space, control, non-ASCII, \\ or the like)")
    parts = _URL.fullmatch(url)
    if parts is None:
        raise BadUrl("must begin with http:// or https://")
    scheme, authority, path, query = parts.groups()
    if "@" in authority:
        raise BadUrl("has user information before the host; send credentials in another way")
    scheme = scheme.lower()
    host, port = split_authority(authority)
    host, is_literal = check_host(host)
    return HttpUrl(scheme, host, port or _STANDARD_PORT[scheme], (path or "/") + (query or ""), is_literal)


def split_authority(authority: str) -> tuple[str, int | None]:
    """Host, in lower case, and port, where one is said."""
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise BadUrl("has a host or port that is not plain (name, IPv4, [IPv6], then optionally :port)")
    host, port_text = parts.groups()
    port = int(port_text) if port_text else None
    if port is not None and port > MAX_PORT:
        raise BadUrl(f"has a port above {MAX_PORT}")
    return host.lower(), port


def check_host(host: str) -> tuple[str, bool]:
    """The host in its one form, and whether it is an address."""
    if host.startswith("["):
        address = parse_address(host[1:-1])
        if not isinstance(address, IPv6Address):
            raise BadUrl("has brackets around something that is not an IPv6 address")
        return address.compressed, True
    labels = host.split(".")
    if len(host) > _MAX_HOST_LENGTH or not all(_LABEL.fullmatch(label) for label in labels):
        raise BadUrl("has a host that is not a plain DNS name (no empty labels, no trailing dot)")
    if _NUMERIC_LABEL.fullmatch(labels[-1]):
        # Some resolvers read 2130706433, 0x7f.1 and 0177.0.0.1 as 127.0.0.1; only the usual form is taken.
        if parse_address(host) is None:
            raise BadUrl("has a host that looks like an IPv4 address in an unusual form; write it as a.b.c.d")
        return host, True
    return host, False


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """The address that `text` writes in its one canonical IPv4 form or in any IPv6 form, else None.

    A zone id (`fe80::1%eth0`) is not an address that anyone outside could mean, so it gives None.
    """
    if "%" in text:
        return None
    try:
        return ip_address(text)
    except ValueError:
        return None
