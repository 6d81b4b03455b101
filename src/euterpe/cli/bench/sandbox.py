"""Where a measurement takes place: on the engine that the user names, never in tables that the user has.

On Postgres that is a schema of its own, on SQLite a folder of its own on the same disk. Both are gone afterwards.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from euterpe.backends.engines import EMBEDDED_FOLDER, MEMORY_URL, sqlite_path
from euterpe.backends.sandbox import schema_for_a_while
from euterpe.model.errors import EuterpeError, InvalidInput

PREFIX: Final = "euterpe_bench_"
FILES: Final = ("sqlite", "libsql")
REMOVALS: Final = 100
REMOVAL_PAUSE_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Sandbox:
    """`name` is what a user may look for, should it be left behind; `folder` is where the database's file will be, None
    where a server keeps it."""

    url: str
    name: str
    folder: Path | None = None


@asynccontextmanager
async def open_sandbox(url: str) -> AsyncIterator[Sandbox]:
    """A place of our own on the engine of `url`; whatever happens in it, it is removed at the end."""
    parts = urlsplit(url)
    if parts.scheme in ("http", "https"):
        raise InvalidInput(
            "engine", "is a control plane; name the database behind it, and run this where that can be reached"
        )
    if parts.scheme in ("postgres", "postgresql"):
        async with _own_schema(url) as place:
            yield place
    elif parts.scheme in FILES and not parts.netloc:
        folder = _own_folder(url)
        try:
            yield Sandbox(f"{parts.scheme}:///{quote(str(folder / 'jobs.db'))}", f"the folder {folder}", folder)
        finally:
            await _remove(folder)
    else:
        raise InvalidInput(
            "engine", "is nothing to measure on; use sqlite:///file.db, libsql:///file.db or postgresql://..."
        )


def _own_folder(url: str) -> Path:
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=_beside(url))).absolute()


async def _remove(folder: Path) -> None:
    """A cancelled opening goes on in its thread, and may make a file while we delete: then once more."""
    for _ in range(REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not await asyncio.to_thread(folder.exists):
            return
        await asyncio.sleep(REMOVAL_PAUSE_S)
    raise EuterpeError(f"{folder} could not be removed; delete it by hand")


def _beside(url: str) -> Path | None:
    """The folder whose disk is measured; None is the system's own for temporary files."""
    if url == MEMORY_URL:
        return None
    folder = Path(sqlite_path(url)).parent
    if folder.is_dir():
        return folder
    if folder == EMBEDDED_FOLDER:
        return None  # the embedded default, where nothing was started yet
    raise InvalidInput("engine", f"there is no folder {folder}; make it, or name another file")


@asynccontextmanager
async def _own_schema(url: str) -> AsyncIterator[Sandbox]:
    schema = PREFIX + secrets.token_hex(4)
    parts = urlsplit(url)
    query = {**dict(parse_qsl(parts.query)), "schema": schema}
    place = Sandbox(urlunsplit(parts._replace(query=urlencode(query))), f"the schema {schema}")
    async with schema_for_a_while(place.url):
        yield place
