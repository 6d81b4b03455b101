"""Packages that only some installations have, the extra that brings each, and the sentence for one that is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from euterpe.model.errors import MissingExtra

EXTRAS: Final = {
    "postgres": ("asyncpg",),
    "redis": ("redis", "hiredis"),
    "http": ("aiohttp", "yarl"),
    "webhooks": ("cryptography", "httptools", "ruamel"),
    "telemetry": ("prometheus_client", "ruamel"),
    "cli": ("click", "rich", "uvloop"),
    "server": ("uvicorn",),
    "libsql": ("libsql",),
    "transcode": ("aiohttp", "yarl", "imageio_ffmpeg", "av"),
    "producer": ("watchfiles",),
    "reload": ("watchfiles",),
    "top": ("textual",),
}
"""The modules that each extra of the package brings. An extra may contain others; those are not repeated here."""


@contextmanager
def needing(what: str, extra: str | None = None) -> Iterator[None]:
    """Turn a failed import of an extra's package into MissingExtra. `what` is the thing that needs it.

    Without `extra` the first one that brings the package is named. Any other import that fails is a bug and passes.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        bringing = [name for name, modules in EXTRAS.items() if package in modules]
        if not bringing:
            raise
        raise MissingExtra(what, package, extra if extra in bringing else bringing[0]) from error
