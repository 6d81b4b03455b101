"""How to talk to Redis. Apart from the client, so that whoever reads a configuration need not load the driver."""

from __future__ import annotations

import os

import msgspec


class RedisTuning(msgspec.Struct, frozen=True, kw_only=True):
    """The section `redis` of the configuration, without the address."""

    dial_timeout_s: float = 5.0
    read_timeout_s: float = 3.0
    write_timeout_s: float = 3.0
    pool_size: int = 10 * (os.cpu_count() or 1)
    min_idle: int = 5
    max_retries: int = 3


DEFAULT_TUNING = RedisTuning()
