"""The environment of the processes that a worker starts: its own, without the secrets that they have no use for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SEALING_KEYS: Final = frozenset({"EUTERPE_KEKS", "EUTERPE_ACTIVE_KEK"})
"""Only the process that opens credentials needs them; a handler's own process runs code of others."""
GIVEN_OTHERWISE: Final = frozenset(
    f"{prefix}{name}"
    for prefix in ("", "EUTERPE_")
    for name in ("ENGINE_URL", "DATABASE_URL", "REDIS_PASSWORD", "OBSERVABILITY_TRACING_ENDPOINT")
)
"""A lease keeper is told over its standard input where to connect."""


def for_a_handler(environ: Mapping[str, str]) -> dict[str, str]:
    """A handler's module may read what its application needs; the sealing keys are ours alone."""
    return {name: value for name, value in environ.items() if name not in SEALING_KEYS}


def for_a_lease_keeper(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in for_a_handler(environ).items() if name not in GIVEN_OTHERWISE}
