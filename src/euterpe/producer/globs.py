"""Which files of a tree are meant: globs as .gitignore and Go's doublestar write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

EVERYTHING: Final = ("**/*",)
_MEDIA: Final = (
    *(
        "aac",
        "aif",
        "aiff",
        "alac",
        "ape",
        "caf",
        "dff",
        "dsf",
        "flac",
        "m4a",
        "m4b",
        "mka",
        "mp3",
        "mpc",
        "oga",
        "ogg",
    ),
    *("opus", "w64", "wav", "wma", "wv"),
    *("3gp", "avi", "flv", "m2ts", "m4v", "mkv", "mov", "mp4", "mpeg", "mpg", "mts", "mxf", "ogv", "ts", "webm", "wmv"),
)


def media_globs() -> tuple[str, ...]:
    """Names of sound and video, in upper and lower case: covers, logs and cue sheets are none."""
    return tuple("*." + "".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in name) for name in _MEDIA)


class Globs:
    """Includes and excludes, held against the path below the scanned folder (`album/01.flac`). An exclude wins.

    `*` and `?` stay inside one name, `**` spans folders, `[a-z]` and `[!a-z]` are one character. A pattern without a
    slash is held against the name alone, in every folder. A pattern that ends in `/**` also keeps a scan out of the
    folder before it."""

    def __init__(self, include: Iterable[str], exclude: Iterable[str]) -> None:
        self._include = [_compiled(glob) for glob in include]
        excluded = list(exclude)
        self._exclude = [_compiled(glob) for glob in excluded]
        self._closed = [_compiled(f"/{glob.removesuffix('/**')}") for glob in excluded if glob.endswith("/**")]

    def take(self, path: str) -> bool:
        return any(glob.match(path) for glob in self._include) and not any(glob.match(path) for glob in self._exclude)

    def enter(self, folder: str) -> bool:
        """Whether the folder may hold files that are taken."""
        return not any(closed.match(folder) for closed in self._closed)


def _compiled(glob: str) -> re.Pattern[str]:
    anchored = glob if "/" in glob else f"**/{glob}"
    return re.compile(rf"(?s:{_translated(anchored.removeprefix('/').removeprefix('./'))})\Z")


def _translated(glob: str) -> str:
    pieces: list[str] = []
    at = 0
    while at < len(glob):
        if glob.startswith("**/", at) and (at == 0 or glob[at - 1] == "/"):
            pieces.append("(?:[^/]+/)*")
            at += 3
        elif glob.startswith("**", at):
            pieces.append(".*")
            at += 2
        elif glob[at] == "*":
            pieces.append("[^/]*")
            at += 1
        elif glob[at] == "?":
            pieces.append("[^/]")
            at += 1
        elif glob[at] == "[" and (end := glob.find("]", at + 2)) > 0:
            pieces.append(_set_of(glob[at + 1 : end]))
            at = end + 1
        else:
            pieces.append(re.escape(glob[at]))
            at += 1
    return "".join(pieces)


def _set_of(members: str) -> str:
    negated = members[0] in "!^"
    inside = members[1:] if negated else members
    escaped = inside.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace("^", "\\^")
    return f"(?!/)[{'^' if negated else ''}{escaped}]"
