"""An aiohttp session of somebody else, held to the same rules: what it may reach, seen from a canary."""

from __future__ import annotations

import aiohttp
import pytest

from euterpe.egress.aiohttp_guard import AiohttpGuard
from euterpe.egress.errors import EgressRefused
from euterpe.egress.target import DEFAULT_PORTS, EgressPolicy
from tests.webhook.canary import Names, serving

LOOPBACK = EgressPolicy(allow_loopback=True)


def _session(guard: AiohttpGuard) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(**guard.connector_arguments))


async def test_the_endpoint_and_its_buckets_can_be_reached() -> None:
    async with serving() as server:
        guard = AiohttpGuard(server.url(host="s3.example.com"), LOOPBACK, resolver=Names(default=("127.0.0.1",)))
        async with _session(guard) as session:
            for host in ("s3.example.com", "bucket.s3.example.com"):
                async with session.get(server.url(host=host)) as reply:
                    assert reply.status == 204
    assert server.connections == 2


async def test_an_endpoint_given_as_an_address_can_be_reached_and_no_other_address() -> None:
    async with serving() as server, serving(host="127.0.0.2", port=server.port) as other:
        async with _session(AiohttpGuard(server.url(), LOOPBACK)) as session:
            async with session.get(server.url()) as reply:
                assert reply.status == 204
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(other.url(host="127.0.0.2"))
        assert other.connections == 0


async def test_a_literal_address_does_not_slip_past_the_resolver() -> None:
    async with serving() as canary:
        policy = EgressPolicy(ports=DEFAULT_PORTS | {canary.port})
        guard = AiohttpGuard(canary.url(host="s3.example.com"), policy, resolver=Names(default=("1.1.1.1",)))
        async with _session(guard) as session:
            for host in ("127.0.0.1", "[::1]", "169.254.169.254"):
                with pytest.raises(aiohttp.ClientConnectorError):
                    await session.get(canary.url(host=host))
        assert canary.connections == 0


async def test_a_name_that_leads_inside_is_refused() -> None:
    async with serving() as canary:
        policy = EgressPolicy(ports=DEFAULT_PORTS | {canary.port})
        names = Names(s3_example_com=[("1.1.1.1", "127.0.0.1"), ("127.0.0.1",)])
        async with _session(AiohttpGuard(canary.url(host="s3.example.com"), policy, resolver=names)) as session:
            for _ in range(2):
                with pytest.raises(EgressRefused):
                    await session.get(canary.url(host="s3.example.com"))
        assert canary.connections == 0


async def test_a_name_outside_the_endpoint_is_refused() -> None:
    async with serving() as canary:
        names = Names(default=("127.0.0.1",))
        guard = AiohttpGuard(canary.url(host="s3.example.com"), LOOPBACK, resolver=names)
        async with _session(guard) as session:
            for host in ("evil.example.com", "evils3.example.com", "localhost"):
                with pytest.raises(aiohttp.ClientConnectorError):
                    await session.get(canary.url(host=host))
        assert canary.connections == 0
        assert names.asked == []


async def test_an_endpoint_that_is_not_allowed_is_refused_at_once() -> None:
    with pytest.raises(EgressRefused):
        AiohttpGuard("http://169.254.169.254/", EgressPolicy(allow_private=True))
