"""What a keeper process is told at its start, over its standard input: no secret goes on a command line."""

from __future__ import annotations

import msgspec


class KeeperConfig(msgspec.Struct, frozen=True):
    """The second line. The first has what it needs to watch the table: descriptor, slots, the length of leases."""

    url: str
    descriptor: int
    slots: int
    lease_ttl_us: int
    parent: int
    worker_id: str

    def lines(self) -> bytes:
        return b"%d %d %d\n%s\n" % (self.descriptor, self.slots, self.lease_ttl_us, msgspec.json.encode(self))


def read_config(line: bytes) -> KeeperConfig:
    return msgspec.json.decode(line, type=KeeperConfig)
