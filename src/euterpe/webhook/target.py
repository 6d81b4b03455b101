"""Reads a URL that a requester wrote, strictly, and holds it against the egress policy: no DNS, no I/O.

The grammar is narrower than the web's on purpose. Whatever two parsers could read in two ways (user info,
backslashes, decimal or octal addresses, trailing dots, non-ASCII hosts) is refused rather than interpreted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Final

from euterpe.model.errors import InvalidInput
from euterpe.webhook.addresses import Reach, parse_address, reach_of
from euterpe.webhook.egress_errors import EgressRefused, Refusal

MAX_URL_LENGTH: Final = 2048
# The two standard ports and their two common twins. A list of our own keeps a requester from speaking HTTP at
# mail servers, databases and caches of third parties through us, whatever their address.
DEFAULT_PORTS: Final = frozenset({80, 443, 8080, 8443})

_STANDARD_PORT: Final = {"http": 80, "https": 443}
_FIRST_UNPRIVILEGED_PORT: Final = 1024
_MAX_PORT: Final = 65535
_MAX_HOST_LENGTH: Final = 253

_URL: Final = re.compile(r"(https?)://([^/?]*)(/[^?]*)?(\?.*)?", re.ASCII | re.IGNORECASE)
_FORBIDDEN: Final = re.compile(r'[^!-~]|[\\"<>^`{|}#]')
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([1-9][0-9]{0,4}))?", re.ASCII)
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMERIC_LABEL: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_INSIDE_SUFFIXES: Final = (".local", ".internal", ".intranet", ".lan", ".home.arpa", ".localdomain")


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """What a requester's URL may lead to besides the public internet.

    `allow_hosts` entries are `name` or `name:port` and come from the operator: such a host may live in
    private, shared or loopback ranges, and on that port. Link-local and metadata addresses stay closed to
    everyone.
    """

    allow_private: bool = False
    allow_loopback: bool = False
    allow_hosts: frozenset[str] = frozenset()
    ports: frozenset[int] = DEFAULT_PORTS
    _named: frozenset[tuple[str, int | None]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for port in self.ports:
            if not 1 <= port <= _MAX_PORT:
                raise InvalidInput("egress.ports", f"{port!r} is not a port")
        object.__setattr__(self, "allow_hosts", frozenset(self.allow_hosts))
        object.__setattr__(self, "_named", frozenset(_named_hosts(self.allow_hosts)))

    def names(self, host: str, port: int) -> bool:
        """Whether the operator named this host, alone or with this port."""
        return (host, None) in self._named or (host, port) in self._named

    def allows_port(self, host: str, port: int, reach: Reach | None) -> bool:
        """Whether the port is open there. `reach` is None while the host's address is not known yet."""
        if port in self.ports or (host, port) in self._named:
            return True
        # A developer's receiver on this machine listens wherever there was room.
        might_be_loopback = reach in (None, Reach.LOOPBACK)
        return self.allow_loopback and might_be_loopback and port >= _FIRST_UNPRIVILEGED_PORT

    def allows_reach(self, host: str, port: int, reach: Reach) -> bool:
        """Whether a call to this host may end at an address of this kind."""
        match reach:
            case Reach.PUBLIC:
                return True
            case Reach.NEVER:
                return False
            case Reach.LOOPBACK:
                return self.allow_loopback or self.names(host, port)
            case Reach.PRIVATE:
                return self.allow_private or self.names(host, port)
            case Reach.SHARED:
                return self.names(host, port)


@dataclass(frozen=True, slots=True)
class Target:
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


def check_url(url: str, policy: EgressPolicy) -> Target:
    """Everything that can be said about a URL without asking DNS. Raises EgressRefused, or gives its parts.

    Passing is not a promise: the addresses behind the name are checked at each call.
    """
    target = parse_url(url)
    host, port = target.host, target.port
    if target.is_literal:
        check_address(target, target.host, policy)
        return target
    if not policy.allows_port(host, port, None):
        raise _port_refused(target, policy)
    if host == "localhost" or host.endswith(".localhost"):
        if not policy.allows_reach(host, port, Reach.LOOPBACK):
            raise EgressRefused(Refusal.ADDRESS, f"{host} is this machine, which is not open to requesters")
    elif ("." not in host or host.endswith(_INSIDE_SUFFIXES)) and not policy.allows_reach(host, port, Reach.PRIVATE):
        raise EgressRefused(
            Refusal.ADDRESS,
            f"{host} is a name of an internal network; use a public host name, "
            "or have the operator list it in egress.allow_hosts",
        )
    return target


def check_address(target: Target, address: str, policy: EgressPolicy) -> None:
    """Refuse the call if this one of the target's addresses is not open under the policy."""
    reach = reach_of(address)
    if not policy.allows_reach(target.host, target.port, reach):
        raise EgressRefused(
            Refusal.ADDRESS,
            f"{target.host} leads to an address that is not public; calls go to the public internet only, "
            "unless the operator opens egress.allow_private or lists the host in egress.allow_hosts",
        )
    if not policy.allows_port(target.host, target.port, reach):
        raise _port_refused(target, policy)


@lru_cache(maxsize=1024)
def parse_url(url: str) -> Target:
    """The parts of an http or https URL, or EgressRefused with what is wrong with it."""
    if not isinstance(url, str):
        raise _bad_url(f"must be text, got {type(url).__name__}")
    if len(url) > MAX_URL_LENGTH:
        raise _bad_url(f"is longer than {MAX_URL_LENGTH} characters")
    if "#" in url:
        raise _bad_url("has a fragment (#...), which is never sent; remove it")
    if _FORBIDDEN.search(url) or _BROKEN_ESCAPE.search(url):
        raise _bad_url("has a character that must be percent-encoded (space, control, non-ASCII, \\ or the like)")
    parts = _URL.fullmatch(url)
    if parts is None:
        raise _bad_url("must begin with http:// or https://")
    scheme, authority, path, query = parts.groups()
    if "@" in authority:
        raise _bad_url("has user information before the host; send credentials in another way")
    scheme = scheme.lower()
    host, port = _split_authority(authority)
    host, is_literal = _check_host(host)
    return Target(scheme, host, port or _STANDARD_PORT[scheme], (path or "/") + (query or ""), is_literal)


def _split_authority(authority: str) -> tuple[str, int | None]:
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise _bad_url("has a host or port that is not plain (name, IPv4, [IPv6], then optionally :port)")
    host, port_text = parts.groups()
    port = int(port_text) if port_text else None
    if port is not None and port > _MAX_PORT:
        raise _bad_url(f"has a port above {_MAX_PORT}")
    return host.lower(), port


def _check_host(host: str) -> tuple[str, bool]:
    if host.startswith("["):
        address = parse_address(host[1:-1])
        if not isinstance(address, IPv6Address):
            raise _bad_url("has brackets around something that is not an IPv6 address")
        return address.compressed, True
    labels = host.split(".")
    if len(host) > _MAX_HOST_LENGTH or not all(_LABEL.fullmatch(label) for label in labels):
        raise _bad_url("has a host that is not a plain DNS name (no empty labels, no trailing dot)")
    if _NUMERIC_LABEL.fullmatch(labels[-1]):
        # Some resolvers read 2130706433, 0x7f.1 and 0177.0.0.1 as 127.0.0.1; only the usual form is taken.
        if parse_address(host) is None:
            raise _bad_url("has a host that looks like an IPv4 address in an unusual form; write it as a.b.c.d")
        return host, True
    return host, False


def _named_hosts(entries: Iterable[str]) -> Iterable[tuple[str, int | None]]:
    for entry in entries:
        try:
            host, port = _split_authority(entry)
            yield _check_host(host)[0], port
        except EgressRefused:
            raise InvalidInput(
                "egress.allow_hosts", f"{entry!r} must be a host name or address, or host:port"
            ) from None


def _bad_url(why: str) -> EgressRefused:
    return EgressRefused(Refusal.BAD_URL, f"the URL {why}")


def _port_refused(target: Target, policy: EgressPolicy) -> EgressRefused:
    ports = ", ".join(str(port) for port in sorted(policy.ports))
    return EgressRefused(
        Refusal.PORT,
        f"port {target.port} of {target.host} is not open; use one of {ports}, "
        f"or have the operator list {target.authority} in egress.allow_hosts",
    )
