"""Says of any IP address what kind of place it is: the public internet, or somewhere a requester has no
business.

Python's `is_global` is not enough: it passes NAT64, 6to4 and multicast, all of which lead elsewhere than they
seem to. So the ranges are spelled out, and IPv6 is turned round: only 2000::/3 can be public at all.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_network
from typing import Final

from euterpe.model.urls.http_url import parse_address


class Reach(StrEnum):
    """Where an address leads."""

    PUBLIC = "public"
    LOOPBACK = "loopback"
    PRIVATE = "private"  # RFC 1918 and unique local: a policy may open these
    SHARED = "shared"  # carrier-grade NAT: only for hosts that the operator names
    NEVER = "never"  # link-local, metadata, multicast, reserved, and one address wrapped in another


_V4: Final[tuple[tuple[str, Reach], ...]] = (
    ("0.0.0.0/8", Reach.NEVER),  # "this host": Linux connects it to loopback
    ("10.0.0.0/8", Reach.PRIVATE),
    ("100.100.100.200/32", Reach.NEVER),  # a cloud's metadata service inside the carrier-grade NAT range
    ("100.64.0.0/10", Reach.SHARED),
    ("127.0.0.0/8", Reach.LOOPBACK),
    ("168.63.129.16/32", Reach.NEVER),  # a cloud's host agent on an address that looks public
    ("169.254.0.0/16", Reach.NEVER),  # link-local, and most clouds' metadata service
    ("172.16.0.0/12", Reach.PRIVATE),
    ("192.0.0.0/24", Reach.NEVER),  # protocol assignments, with one more metadata service
    ("192.0.2.0/24", Reach.NEVER),  # documentation
    ("192.31.196.0/24", Reach.NEVER),  # AS112
    ("192.52.193.0/24", Reach.NEVER),  # multicast tunnelling
    ("192.88.99.0/24", Reach.NEVER),  # 6to4 relays
    ("192.168.0.0/16", Reach.PRIVATE),
    ("192.175.48.0/24", Reach.NEVER),  # AS112
    ("198.18.0.0/15", Reach.NEVER),  # benchmarking
    ("198.51.100.0/24", Reach.NEVER),  # documentation
    ("203.0.113.0/24", Reach.NEVER),  # documentation
    ("224.0.0.0/4", Reach.NEVER),  # multicast
    ("240.0.0.0/4", Reach.NEVER),  # reserved, and the broadcast address
)

# Anything outside 2000::/3 that is not listed here is NEVER: that covers ::, IPv4-mapped and -compatible
# addresses, NAT64 (64:ff9b::/96 and 64:ff9b:1::/48), discard-only, segment routing, link-local, site-local,
# multicast.
_V6: Final[tuple[tuple[str, Reach], ...]] = (
    ("::1/128", Reach.LOOPBACK),
    ("fd00:ec2::/32", Reach.NEVER),  # a cloud's metadata service inside the unique local range
    ("fd20:ce::/32", Reach.NEVER),  # another one
    ("fc00::/7", Reach.PRIVATE),
    ("2001::/23", Reach.NEVER),  # Teredo, benchmarking, ORCHID and other protocol assignments
    ("2001:db8::/32", Reach.NEVER),  # documentation
    ("2002::/16", Reach.NEVER),  # 6to4: an IPv4 address in disguise
    ("2620:4f:8000::/48", Reach.NEVER),  # AS112
    ("3fff::/20", Reach.NEVER),  # documentation
    ("2000::/3", Reach.PUBLIC),
)


def _first_match_order(table: tuple[tuple[str, Reach], ...]) -> list[tuple[IPv4Network | IPv6Network, Reach]]:
    networks = [(ip_network(network), reach) for network, reach in table]
    return sorted(networks, key=lambda entry: -entry[0].prefixlen)  # the narrowest range decides


_V4_NETWORKS: Final = _first_match_order(_V4)
_V6_NETWORKS: Final = _first_match_order(_V6)


@lru_cache(maxsize=4096)
def reach_of(address: str) -> Reach:
    """Where this address leads. Text that is no plain address leads nowhere we go."""
    parsed = parse_address(address)
    if parsed is None:
        return Reach.NEVER
    if isinstance(parsed, IPv4Address):
        return next((reach for network, reach in _V4_NETWORKS if parsed in network), Reach.PUBLIC)
    return next((reach for network, reach in _V6_NETWORKS if parsed in network), Reach.NEVER)
