"""Names by which a server may be called.

A web page can make its own name resolve to 127.0.0.1 and then read what listens there (DNS rebinding); the browser
still sends the page's name as `Host`. A server on loopback therefore answers to loopback's names alone, and to those
it was given.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class AllowedHosts:
    """Which `Host` headers are answered. Without names of its own, a server that is not on loopback answers to all."""

    __slots__ = ("_names",)

    def __init__(self, bound_to: str, names: Iterable[str] = ()) -> None:
        own = {bracketed(name.lower().rstrip(".")) for name in names}
        if own or is_loopback(bound_to):
            own |= LOOPBACK_NAMES | {bracketed(bound_to)}
        self._names: Final = frozenset(name.encode("idna") if not name.isascii() else name.encode() for name in own)

    def allow(self, host: bytes | None) -> bool:
        """Whether a request with this `Host`, port and all, is meant for us."""
        if not self._names:
            return True
        if host is None:
            return False
        name = host.strip().lower()
        name = name[: name.find(b"]") + 1] if name.startswith(b"[") else name.partition(b":")[0]
        return name.rstrip(b".") in self._names


def bracketed(host: str) -> str:
    """An address of IPv6 as a URL writes it."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
