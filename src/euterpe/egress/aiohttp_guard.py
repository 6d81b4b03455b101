"""For libraries that bring their own aiohttp session (an S3 client) and are pointed at a requester's endpoint.

A resolver that checks is not enough there: aiohttp never asks it about an address written as such. So the guard
also makes the sockets, and makes none for an address that it has not approved before.
"""

from __future__ import annotations

import errno
import socket
from typing import TypedDict

from aiohttp import AddrInfoType, SocketFactoryType
from aiohttp.abc import AbstractResolver, ResolveResult

from euterpe.egress.resolution import CachingResolver, Resolver, SystemResolver
from euterpe.egress.target import EgressPolicy, Target, check_address, check_url


class ConnectorArguments(TypedDict):
    """What `aiohttp.TCPConnector` takes, and aiobotocore's `AioConfig(connector_args=...)` likewise."""

    resolver: AbstractResolver
    socket_factory: SocketFactoryType
    use_dns_cache: bool
    force_close: bool


class AiohttpGuard(AbstractResolver):
    """Lets an aiohttp session reach one endpoint, and names below it (a bucket), under the egress policy."""

    def __init__(self, endpoint_url: str, policy: EgressPolicy, *, resolver: Resolver | None = None) -> None:
        self._target = check_url(endpoint_url, policy)
        self._policy = policy
        self._resolver = resolver or CachingResolver(SystemResolver())
        self._approved: set[tuple[str, int]] = set()
        if self._target.is_literal:
            self._approved.add((self._target.host, self._target.port))

    @property
    def connector_arguments(self) -> ConnectorArguments:
        """Connections are not kept: a hostile server can fill the memory of an idle aiohttp connection."""
        return ConnectorArguments(
            resolver=self, socket_factory=self._make_socket, use_dns_cache=False, force_close=True
        )

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        name = host.lower()
        if name != self._target.host and not name.endswith(f".{self._target.host}"):
            raise OSError(errno.EACCES, f"{host} does not belong to the endpoint {self._target.host}")
        target = Target(self._target.scheme, name, port, "/", is_literal=False)
        found = await self._resolver.resolve(name, port)
        for address in found:
            check_address(target, address, self._policy)
        self._approved.update((address, port) for address in found)
        return [_result(host, address, port) for address in found if _fits(address, family)]

    async def close(self) -> None:
        await self._resolver.close()

    def _make_socket(self, info: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, address = info
        if (address[0], address[1]) not in self._approved:
            raise OSError(errno.EACCES, "this address was not checked for the endpoint")
        return socket.socket(family, kind, protocol)


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _fits(address: str, family: socket.AddressFamily) -> bool:
    return family in (socket.AF_UNSPEC, _family(address))


def _result(host: str, address: str, port: int) -> ResolveResult:
    return ResolveResult(
        hostname=host, host=address, port=port, family=_family(address), proto=0, flags=socket.AI_NUMERICHOST
    )
