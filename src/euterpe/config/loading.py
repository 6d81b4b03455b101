"""From a YAML file and the environment to a checked `Config`, or to one error that names every bad key.

The environment wins over the file, the file over the defaults. A missing file is no error.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from euterpe.config.declaration import HIDDEN, Section, Setting, Subsection, declared_in
from euterpe.config.problems import ConfigError, ConfigProblem
from euterpe.config.rules import broken_rules
from euterpe.config.settings import Config
from euterpe.config.value_types import RefusedValue
from euterpe.config.yaml_file import read_file

PREFIX: Final = "EUTERPE_"
ENGINE_KEY: Final = "engine.url"
LAST_RESORT: Final = "DATABASE_URL"
"""Where hosting platforms put the application's database."""
DEFAULT: Final = "default"
_SHOWN_LIMIT: Final = 80
S = TypeVar("S", bound=Section)


def every_key(_key: str) -> bool:
    """A process that needs the whole configuration."""
    return True


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration, and where its values came from: `$WORKER_COUNT`, `euterpe.yaml:4`; nothing for a default."""

    config: Config
    sources: Mapping[str, str]
    file_missing: bool
    """A file was named, and it is not there."""
    ignored: tuple[ConfigProblem, ...]
    """Variables that do not fit, of keys that nobody here needs."""


def load_config(path: str | None, environ: Mapping[str, str]) -> Config:
    """The configuration of a process. Raises `ConfigError`; the caller then exits with 2."""
    return load(path, environ).config


def load(path: str | None, environ: Mapping[str, str], needed: Callable[[str], bool] = every_key) -> LoadedConfig:
    """The configuration with its sources. A variable of a key that is not `needed` cannot be wrong: it may be another
    program's. What stands in the file is always checked."""
    problems: list[ConfigProblem] = []
    found = None if path is None else read_file(path, problems)
    document, places = found or (None, {})
    reader = _Reader(environ, places, problems, needed)
    config = reader.section(Config, document, "")
    unreadable = {problem.key for problem in (*problems, *reader.ignored)}
    for rule, complaint in broken_rules(config, unreadable):
        key = rule.keys[0]
        if needed(key) or not any(reader.source_of(each).startswith("$") for each in rule.keys):
            problems.append(ConfigProblem(key, complaint, reader.source_of(key)))
    if problems:
        raise ConfigError(problems)
    sources = {key: reader.source_of(key) for key, _ in all_settings()}
    return LoadedConfig(config, sources, path is not None and found is None, tuple(reader.ignored))


def environment_name(key: str) -> str:
    """`worker.backoff.base` -> `WORKER_BACKOFF_BASE`; the same with `EUTERPE_` before it wins."""
    return key.replace(".", "_").upper()


def all_settings(made_of: type[Section] = Config, prefix: str = "") -> Iterator[tuple[str, Setting]]:
    """Every key with its dotted path, in the order of the reference page."""
    for entry in declared_in(made_of):
        if isinstance(entry, Subsection):
            yield from all_settings(entry.made_of, f"{prefix}{entry.key}.")
        else:
            yield f"{prefix}{entry.key}", entry


class _Reader:
    """Walks the declared sections beside the loaded document and collects what does not fit."""

    def __init__(
        self,
        environ: Mapping[str, str],
        places: Mapping[str, str],
        problems: list[ConfigProblem],
        needed: Callable[[str], bool],
    ) -> None:
        self._environ = environ
        self._places = places
        self._problems = problems
        self._needed = needed
        self.ignored: list[ConfigProblem] = []
        self._sources: dict[str, str] = {}

    def section(self, made_of: type[S], given: object, prefix: str) -> S:
        if given is None:
            given = {}
        if not isinstance(given, dict):
            self._complain(prefix.rstrip(".") or "the file", f"{_type_name(given)}; expected a map of keys")
            given = {}
        values: dict[str, Any] = {}
        known: set[str] = set()
        for entry in declared_in(made_of):
            known.add(entry.key)
            path = f"{prefix}{entry.key}"
            if isinstance(entry, Subsection):
                values[entry.attribute] = self.section(entry.made_of, given.get(entry.key), f"{path}.")
            else:
                values[entry.attribute] = self._value(entry, path, given.get(entry.key))
        for key in given:
            if key not in known:
                self._complain(f"{prefix}{key}", f"unknown key{_suggestion(str(key), prefix, known)}")
        return made_of(**values)

    def source_of(self, path: str) -> str:
        """Where the value of a key came from: `$WORKER_COUNT`, `euterpe.yaml:4`, or nowhere (a default)."""
        return self._sources.get(path, self._places.get(path, ""))

    def _value(self, entry: Setting, path: str, from_file: object) -> object:
        for variable in (PREFIX + environment_name(path), environment_name(path)):
            if text := self._environ.get(variable):
                try:
                    value = entry.kind.read(entry.kind.from_text(text))
                except RefusedValue as refused:
                    if self._refuse(entry, path, text, variable, str(refused)):
                        return entry.default
                else:
                    self._sources[path] = f"${variable}"
                    return value
        if from_file is None:  # `key:` with nothing behind it counts as not written
            return self._last_resort(entry, path)
        try:
            return entry.kind.read(from_file)
        except RefusedValue as refused:
            self._complain(path, _complaint(entry, from_file, str(refused)))
            return entry.default

    def _refuse(self, entry: Setting, path: str, text: str, variable: str, hint: str) -> bool:
        """A variable does not fit. Whether that matters to this process."""
        problem = ConfigProblem(path, _complaint(entry, text, hint), f"${variable}")
        needed = self._needed(path)
        (self._problems if needed else self.ignored).append(problem)
        return needed

    def _last_resort(self, entry: Setting, path: str) -> object:
        """The application's own database, as platforms name it, where nobody said anything about ours."""
        url = self._environ.get(LAST_RESORT, "").strip()
        if path != ENGINE_KEY or not url:
            return entry.default
        scheme, separator, place = url.partition("://")
        try:
            # `postgresql+asyncpg://` is the same place; the rest of the name is SQLAlchemy's.
            value = entry.kind.read(f"{scheme.partition('+')[0]}{separator}{place}")
        except RefusedValue:
            return entry.default
        self._sources[path] = f"${LAST_RESORT}"
        return value

    def _complain(self, path: str, complaint: str) -> None:
        self._problems.append(ConfigProblem(path, complaint, self.source_of(path)))


def _complaint(entry: Setting, given: object, hint: str) -> str:
    return f"{_shown(entry, given)}; {hint or f'expected {entry.kind.expected}'}"


def _shown(entry: Setting, value: object) -> str:
    if entry.secret and entry.shown(value) == HIDDEN:
        return "its value (not shown) does not fit"
    # A list of lists of lists, by aliases, is endless; nobody wants to read it whole.
    shown = reprlib.repr(value) if isinstance(value, list | dict) else entry.shown(value)
    return shown if len(shown) <= _SHOWN_LIMIT else shown[: _SHOWN_LIMIT - 1] + "…"


def _type_name(value: object) -> str:
    return {"str": "text", "list": "a list", "bool": "true/false"}.get(type(value).__name__, "a single value")


def _suggestion(key: str, prefix: str, known: set[str]) -> str:
    """A key of the same section that is spelt alike, else the same word in another section."""
    near = difflib.get_close_matches(key.replace("-", "_").lower(), sorted(known), n=1)
    if near:
        return f"; did you mean {prefix}{near[0]}?"
    elsewhere = [path for path, _ in all_settings() if path.rpartition(".")[2] == key]
    return f"; did you mean {elsewhere[0]}?" if elsewhere else f"; {prefix.rstrip('.') or 'the file'} has no such key"
