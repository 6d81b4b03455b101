"""Which addresses are the public internet: ours is never more generous than Python, and stricter where it
errs.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.egress.addresses import Reach, reach_of
from euterpe.model.urls.http_url import parse_address

CLOSED = {
    "0.0.0.0/8": Reach.NEVER,
    "10.0.0.0/8": Reach.PRIVATE,
    "100.64.0.0/10": Reach.SHARED,
    "127.0.0.0/8": Reach.LOOPBACK,
    "169.254.0.0/16": Reach.NEVER,
    "172.16.0.0/12": Reach.PRIVATE,
    "192.0.0.0/24": Reach.NEVER,
    "192.0.2.0/24": Reach.NEVER,
    "192.88.99.0/24": Reach.NEVER,
    "192.168.0.0/16": Reach.PRIVATE,
    "198.18.0.0/15": Reach.NEVER,
    "198.51.100.0/24": Reach.NEVER,
    "203.0.113.0/24": Reach.NEVER,
    "224.0.0.0/4": Reach.NEVER,
    "240.0.0.0/4": Reach.NEVER,
    "::/128": Reach.NEVER,
    "::1/128": Reach.LOOPBACK,
    "::ffff:0:0/96": Reach.NEVER,
    "::/96": Reach.NEVER,
    "64:ff9b::/96": Reach.NEVER,
    "64:ff9b:1::/48": Reach.NEVER,
    "100::/64": Reach.NEVER,
    "2001::/32": Reach.NEVER,
    "2001:2::/48": Reach.NEVER,
    "2001:10::/28": Reach.NEVER,
    "2001:db8::/32": Reach.NEVER,
    "2002::/16": Reach.NEVER,
    "3fff::/20": Reach.NEVER,
    "5f00::/16": Reach.NEVER,
    "fc00::/7": Reach.PRIVATE,
    "fe80::/10": Reach.NEVER,
    "fec0::/10": Reach.NEVER,
    "ff00::/8": Reach.NEVER,
}


@pytest.mark.parametrize(("network", "reach"), CLOSED.items())
def test_both_ends_of_every_closed_range_are_closed(network: str, reach: Reach) -> None:
    span = ip_network(network)
    ends = {span.network_address, span.broadcast_address} - {ip_address("::1")}
    if network == "::1/128":
        ends = {span.network_address}
    assert {reach_of(str(end)) for end in ends} == {reach}


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.167.255.255",
        "192.169.0.0",
        "223.255.255.255",
        "2606:4700:4700::1111",
        "2a00:1450:4001::1",
    ],
)
def test_ordinary_addresses_beside_the_ranges_are_public(address: str) -> None:
    assert reach_of(address) is Reach.PUBLIC


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"],
)
def test_metadata_services_are_closed_to_everyone(address: str) -> None:
    assert reach_of(address) is Reach.NEVER


@given(st.integers(0, 2**32 - 1).map(IPv4Address) | st.integers(0, 2**128 - 1).map(IPv6Address))
def test_what_python_calls_not_global_is_never_public(address: IPv4Address | IPv6Address) -> None:
    if not address.is_global or address.is_multicast or address.is_reserved:
        assert reach_of(str(address)) is not Reach.PUBLIC


@given(st.integers(0, 2**32 - 1), st.sampled_from(["::ffff:0:0", "::", "64:ff9b::", "64:ff9b:1::"]))
def test_an_ipv4_address_inside_an_ipv6_one_is_never_public(inner: int, prefix: str) -> None:
    wrapped = IPv6Address(int(IPv6Address(prefix)) + inner)
    assert reach_of(str(wrapped)) is not Reach.PUBLIC


@given(st.integers(0, 2**32 - 1))
def test_6to4_and_teredo_addresses_are_never_public(inner: int) -> None:
    assert reach_of(str(IPv6Address((0x2002 << 112) | (inner << 80)))) is Reach.NEVER
    assert reach_of(str(IPv6Address((0x20010000 << 96) | (inner ^ 0xFFFFFFFF)))) is Reach.NEVER


@pytest.mark.parametrize(
    "text", ["", "localhost", "127.1", "0x7f.1", "010.0.0.1", "1.1.1.1 ", "fe80::1%eth0", "::1%1", "1.1.1.1%1"]
)
def test_what_is_no_plain_address_leads_nowhere(text: str) -> None:
    assert parse_address(text) is None
    assert reach_of(text) is Reach.NEVER
