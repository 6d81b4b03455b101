"""Which engines this installation has, and in which versions."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final

DRIVERS: Final = {"Postgres": "asyncpg", "Redis": "redis", "libsql": "libsql", "HTTP": "aiohttp"}


def engine_versions() -> dict[str, str]:
    """SQLite, which is always there, and each other engine's driver or how to get it."""
    from euterpe.stores.sql.sqlite.engine import library_version

    found = {"SQLite": library_version()}
    for engine, package in DRIVERS.items():
        try:
            found[engine] = f"{package} {version(package)}"
        except PackageNotFoundError:
            found[engine] = f"not installed (pip install 'euterpe-queue[{engine.lower()}]')"
    return found
