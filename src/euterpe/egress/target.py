"""Holds a URL that a requester wrote against the egress policy: no DNS, no I/O. The parser is the model's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from euterpe.egress.addresses import Reach, reach_of
from euterpe.egress.errors import EgressRefusal, EgressRefused
from euterpe.model.errors import InvalidInput
from euterpe.model.urls.http_url import MAX_PORT, BadUrl, HttpUrl, check_host, parse_http_url, split_authority

# The two standard ports and their two common twins. A list of our own keeps a requester from speaking HTTP at
# mail servers, databases and caches of third parties through us, whatever their address.
DEFAULT_PORTS: Final = frozenset({80, 443, 8080, 8443})

_FIRST_UNPRIVILEGED_PORT: Final = 1024

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
            if not 1 <= port <= MAX_PORT:
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


Target = HttpUrl


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
            raise EgressRefused(EgressRefusal.ADDRESS, f"{host} is this machine, which is not open to requesters")
    elif ("." not in host or host.endswith(_INSIDE_SUFFIXES)) and not policy.allows_reach(host, port, Reach.PRIVATE):
        raise EgressRefused(
            EgressRefusal.ADDRESS,
            f"{host} is a name of an internal network; use a public host name, "
            "or have the operator list it in egress.allow_hosts",
        )
    return target


def _opened_by(target: Target, reach: Reach) -> str:
    """What the operator has to configure for such an address."""
    named = f"list {target.host}:{target.port} in egress.allow_hosts"
    match reach:
        case Reach.PUBLIC | Reach.NEVER:
            return "link-local, metadata and reserved addresses are never called"
        case Reach.LOOPBACK:
            return f"it is this machine: the operator can {named}"
        case Reach.PRIVATE:
            return f"the operator can set egress.allow_private, or {named}"
        case Reach.SHARED:
            return f"the operator can {named}"


def check_address(target: Target, address: str, policy: EgressPolicy) -> None:
    """Refuse the call if this one of the target's addresses is not open under the policy."""
    reach = reach_of(address)
    if not policy.allows_reach(target.host, target.port, reach):
        raise EgressRefused(
            EgressRefusal.ADDRESS,
            f"{target.host} leads to an address that is not public; {_opened_by(target, reach)}",
        )
    if not policy.allows_port(target.host, target.port, reach):
        raise _port_refused(target, policy)


def parse_url(url: str) -> Target:
    """The parts of an http or https URL, or EgressRefused with what is wrong with it."""
    try:
        return parse_http_url(url)
    except BadUrl as bad:
        raise EgressRefused(EgressRefusal.BAD_URL, f"the URL {bad}") from None


def _named_hosts(entries: Iterable[str]) -> Iterable[tuple[str, int | None]]:
    for entry in entries:
        try:
            host, port = split_authority(entry)
            yield check_host(host)[0], port
        except BadUrl:
            raise InvalidInput(
                "egress.allow_hosts", f"{entry!r} must be a host name or address, or host:port"
            ) from None


def _port_refused(target: Target, policy: EgressPolicy) -> EgressRefused:
    ports = ", ".join(str(port) for port in sorted(policy.ports))
    return EgressRefused(
        EgressRefusal.PORT,
        f"port {target.port} of {target.host} is not open; use one of {ports}, "
        f"or have the operator list {target.authority} in egress.allow_hosts",
    )
