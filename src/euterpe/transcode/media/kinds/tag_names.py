"""Tags by meaning: one name for what formats call differently, and the name that players read in each container."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_ALIASES = {
    "tsrc": "isrc",
    "tbpm": "bpm",
    "tmpo": "bpm",
    "uslt": "lyrics",
    "unsyncedlyrics": "lyrics",
    "unsynced lyrics": "lyrics",
    "comments": "comment",
    "tcmp": "compilation",
    "cpil": "compilation",
    "itunescompilation": "compilation",
    "organization": "label",
    "publisher": "label",
    "tpub": "label",
    "upc": "barcode",
    "ean": "barcode",
    "ean/upn": "barcode",
    "albumartist": "album_artist",
    "album artist": "album_artist",
    "tracktotal": "track_total",
    "totaltracks": "track_total",
    "disctotal": "disc_total",
    "totaldiscs": "disc_total",
}
_OF_SOME_LANGUAGE = re.compile(r"lyrics-[a-z]{3}")
_GAINS = re.compile(r"replaygain_.*|r128_.*_gain|itunnorm")
_NUMBERED = {"track": "track_total", "disc": "disc_total"}
_ID3 = {"isrc": "TSRC", "bpm": "TBPM", "compilation": "TCMP", "label": "TPUB", "barcode": "BARCODE"}
_VORBIS = {"track_total": "TRACKTOTAL", "disc_total": "DISCTOTAL", "album_artist": "ALBUMARTIST"}
_VORBIS_UPPER = frozenset({"isrc", "bpm", "lyrics", "compilation", "label", "barcode", "artist"})
_MP4 = frozenset(
    {
        *("title", "artist", "album_artist", "composer", "album", "date", "comment", "genre", "copyright", "grouping"),
        *("lyrics", "description", "synopsis", "show", "episode_id", "network", "compilation", "track", "disc"),
    }
)
"""What ffmpeg writes as an atom of its own."""
SEVERAL = ("artist", "album_artist")
"""Tags that may name several; ffmpeg reads them as one, with semicolons between."""
VORBIS_MUXERS = frozenset({"flac", "ogg", "opus"})
MP4_MUXERS = frozenset({"ipod", "mp4"})


def by_meaning(tags: Mapping[str, str]) -> dict[str, str]:
    """Under the names that this file uses; the first of two that mean the same counts."""
    named: dict[str, str] = {}
    for name, value in tags.items():
        known = _ALIASES.get(name, "lyrics" if _OF_SOME_LANGUAGE.fullmatch(name) else name)
        number, slash, total = value.partition("/")
        if known in _NUMBERED and slash and number.isdigit() and total.isdigit():
            named.setdefault(known, number)
            named.setdefault(_NUMBERED[known], total)
        else:
            named.setdefault(known, value)
    return named


def without_gains(tags: Mapping[str, str]) -> dict[str, str]:
    """For sound whose level was changed: what it says of the source's level would make a player change it again."""
    return {name: value for name, value in tags.items() if not _GAINS.fullmatch(name)}


def written_names(muxer: str, tags: Mapping[str, str]) -> dict[str, str]:
    """The names and values under which ffmpeg writes the frames, comments and atoms that players read."""
    if muxer in VORBIS_MUXERS:
        return _vorbis(tags)
    written = dict(tags)
    for number, total in _NUMBERED.items():
        if number in written and (of := written.pop(total, None)):
            written[number] = f"{written[number]}/{of}"
    if muxer in MP4_MUXERS:
        beats = whole_beats(tags)
        own = {name: value for name, value in written.items() if name in _MP4}
        return {**own, "tmpo": str(beats)} if beats else own
    if muxer == "mp3":
        for name in SEVERAL:
            if name in written:
                # ID3v2.3 has a slash between them, but then nobody can tell AC/DC from two artists.
                written[name] = "; ".join(values_of(written[name]))
        return {_ID3.get(name, name): value for name, value in written.items()}
    return written


def freeform(tags: Mapping[str, str]) -> dict[str, str]:
    """What an MP4 has no atom for, and carries as `----:com.apple.iTunes:NAME`."""
    known = {*_MP4, *_NUMBERED.values(), *(["bpm"] if whole_beats(tags) else [])}
    orphans = {total for number, total in _NUMBERED.items() if number not in tags}
    return {name.upper(): value for name, value in tags.items() if name not in known or name in orphans}


def values_of(value: str) -> list[str]:
    return [each.strip() for each in value.split(";") if each.strip()] or [value]


def _vorbis(tags: Mapping[str, str]) -> dict[str, str]:
    written: dict[str, str] = {}
    for name, value in tags.items():
        key = _VORBIS.get(name, name.upper() if name in _VORBIS_UPPER else name)
        first, *others = values_of(value) if name in SEVERAL else [value]
        written[key] = first
        written.update(zip(stand_ins(key), others, strict=False))
    return written


def stand_ins(key: str) -> Iterable[str]:
    """Names of the same length for the second value and those after it: ffmpeg writes a name only once."""
    return (f"{key[:-1]}{number}" for number in "123456789")


def whole_beats(tags: Mapping[str, str]) -> int | None:
    """The beats a minute where they fit into an MP4's atom for them, which holds a whole number."""
    beats = re.fullmatch(r"(\d{1,4})(?:\.0*)?", tags.get("bpm", "").strip())
    return int(beats.group(1)) if beats else None
