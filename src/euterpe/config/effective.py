"""The configuration in effect, key by key, as it may be shown to anybody."""

from __future__ import annotations

from typing import NamedTuple

from euterpe.config.declaration import HIDDEN, Section, Setting, Subsection, declared_in, redact_url
from euterpe.config.loading import DEFAULT, LoadedConfig
from euterpe.config.settings import Config


class EffectiveSetting(NamedTuple):
    """A key, its value as people write it (secrets masked), and where that came from."""

    key: str
    value: str
    source: str


def effective(loaded: LoadedConfig) -> list[EffectiveSetting]:
    """Every key in the order of the reference page."""
    return [
        EffectiveSetting(key, _shown(entry, value), loaded.sources[key] or DEFAULT)
        for key, entry, value in _values(loaded.config, Config, "")
    ]


def _values(section: Section, made_of: type[Section], prefix: str) -> list[tuple[str, Setting, object]]:
    found: list[tuple[str, Setting, object]] = []
    for entry in declared_in(made_of):
        value = getattr(section, entry.attribute)
        if isinstance(entry, Subsection):
            found += _values(value, entry.made_of, f"{prefix}{entry.key}.")
        else:
            found.append((f"{prefix}{entry.key}", entry, value))
    return found


def _shown(entry: Setting, value: object) -> str:
    text = entry.kind.show(value)
    if not entry.secret or text == "":
        return text
    return redact_url(text) if "://" in text else HIDDEN
