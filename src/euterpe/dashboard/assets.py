"""The style sheet and the script, read once and served under names that change with them."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from euterpe.server.http.asgi import Answer, Request

KINDS: Final = {
    "dashboard.css": b"text/css; charset=utf-8",
    "dashboard.js": b"text/javascript; charset=utf-8",
    "icon.svg": b"image/svg+xml",
}
FOREVER: Final = (
    (b"cache-control", b"public, max-age=31536000, immutable"),
    (b"x-content-type-options", b"nosniff"),
)


class Asset(NamedTuple):
    """A file, and where it is found."""

    path: str
    body: bytes
    media_type: bytes

    async def serve(self, _: Request, __: object) -> Answer:
        return Answer(200, self.body, self.media_type, FOREVER)


@cache
def asset(name: str) -> Asset:
    body = files("euterpe.dashboard").joinpath("assets", name).read_bytes()
    stem, _, ending = name.partition(".")
    digest = hashlib.sha256(body).hexdigest()[:12]
    return Asset(f"/dashboard/assets/{stem}-{digest}.{ending}", body, KINDS[name])


def assets() -> list[Asset]:
    return [asset(name) for name in KINDS]
