"""How a section declares its keys: kind, default and meaning in one place, and a repr that keeps secrets.

`setting(...)` stands where a dataclass default stands; the loader, the reference page and `repr` all read
what it recorded. A field whose default is made by another section's class is a key that holds more keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import Field, dataclass, field, fields
from typing import Any, Final, TypeVar, cast

from euterpe.config.value_types import Kind

T = TypeVar("T")
_ABOUT: Final = "euterpe.setting"
HIDDEN: Final = "***"


@dataclass(frozen=True, slots=True)
class Setting:
    """One key: what it takes, what it means, and whether its value may be shown."""

    key: str
    attribute: str
    kind: Kind[Any]
    default: Any
    about: str
    secret: bool

    def shown(self, value: object) -> str:
        """The value as it may appear in messages and logs."""
        if not self.secret:
            return repr(value)
        if isinstance(value, str) and "://" in value:
            return repr(redact_url(value))
        return repr(value) if value == "" else HIDDEN


@dataclass(frozen=True, slots=True)
class Subsection:
    """A key that holds more keys."""

    key: str
    attribute: str
    made_of: type[Section]


@dataclass(frozen=True, slots=True)
class _Declared:
    kind: Kind[Any]
    about: str
    key: str | None
    secret: bool


def setting(kind: Kind[T], default: T, about: str, *, key: str | None = None, secret: bool = False) -> T:
    """Declare a key. Its name is the attribute's (without `_us` for durations), unless `key` says another."""
    declared = _Declared(kind, about, key, secret)
    made: T = field(default_factory=lambda: copy(default), metadata={_ABOUT: declared})
    return made


class Section:
    """Base of every section. Its repr shows every value but the secret ones."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = (
            f"{entry.attribute}={entry.shown(getattr(self, entry.attribute))}"
            if isinstance(entry, Setting)
            else f"{entry.attribute}={getattr(self, entry.attribute)!r}"
            for entry in declared_in(type(self))
        )
        return f"{type(self).__name__}({', '.join(shown)})"


def declared_in(section_type: type[Section]) -> Iterator[Setting | Subsection]:
    """The keys of a section, in the order they are written down."""
    for declared_field in fields(cast(Any, section_type)):
        yield _entry(declared_field)


def _entry(declared_field: Field[Any]) -> Setting | Subsection:
    attribute = declared_field.name
    make_default: Any = declared_field.default_factory
    if isinstance(make_default, type) and issubclass(make_default, Section):
        return Subsection(attribute, attribute, make_default)
    declared: _Declared = declared_field.metadata[_ABOUT]
    key = declared.key or attribute.removesuffix("_us")
    return Setting(key, attribute, declared.kind, make_default(), declared.about, declared.secret)


def redact_url(url: str) -> str:
    """The URL without its login and without the values of its query, where drivers take tokens.

    Everything before the last `@` goes: a password with a `/` that nobody escaped must not slip through.
    """
    scheme, _, rest = url.partition("://")
    login, at, place = rest.rpartition("@")
    place, _, query = place.partition("#")[0].partition("?")
    hidden = "&".join(f"{pair.partition('=')[0]}={HIDDEN}" for pair in query.split("&") if pair)
    return f"{scheme}://{HIDDEN + at if login else ''}{place}{'?' + hidden if hidden else ''}"
