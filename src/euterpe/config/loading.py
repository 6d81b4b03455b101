"""From a YAML file and the environment to a checked `Config`, or to one error that names every bad key.

The environment wins over the file, the file over the defaults. A missing file is no error.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml

from euterpe.config.kinds import RefusedValue
from euterpe.config.problems import ConfigError, ConfigProblem
from euterpe.config.rules import broken_rules
from euterpe.config.sections import Config
from euterpe.config.settings import HIDDEN, Section, Setting, Subsection, declared_in

FILE_LIMIT_BYTES: Final = 1_000_000
_SHOWN_LIMIT: Final = 80
S = TypeVar("S", bound=Section)


def load_config(path: str | None, environ: Mapping[str, str]) -> Config:
    """The configuration of a process. Raises `ConfigError`; the caller then exits with 2."""
    problems: list[ConfigProblem] = []
    document, places = _read_file(path, problems)
    reader = _Reader(environ, places, problems)
    config = reader.section(Config, document, "")
    unreadable = {problem.key for problem in problems}
    for problem in broken_rules(config, unreadable):
        problems.append(ConfigProblem(problem.key, problem.complaint, reader.source_of(problem.key)))
    if problems:
        raise ConfigError(problems)
    return config


def environment_name(key: str) -> str:
    """`worker.backoff.base` -> `WORKER_BACKOFF_BASE`."""
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

    def __init__(self, environ: Mapping[str, str], places: Mapping[str, str], problems: list[ConfigProblem]) -> None:
        self._environ = environ
        self._places = places
        self._problems = problems

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
        variable = environment_name(path)
        return f"${variable}" if self._environ.get(variable) else self._places.get(path, "")

    def _value(self, entry: Setting, path: str, from_file: object) -> object:
        from_environment = self._environ.get(environment_name(path))
        given: object = from_environment or from_file
        if given is None:  # neither says anything: `key:` with nothing behind it counts as not written
            return entry.default
        try:
            return entry.kind.read(entry.kind.from_text(from_environment) if from_environment else given)
        except RefusedValue:
            self._complain(path, f"{_shown(entry, given)}; expected {entry.kind.expected}")
            return entry.default

    def _complain(self, path: str, complaint: str) -> None:
        self._problems.append(ConfigProblem(path, complaint, self.source_of(path)))


def _shown(entry: Setting, value: object) -> str:
    if entry.secret and entry.shown(value) == HIDDEN:
        return "its value (not shown) does not fit"
    shown = entry.shown(value)
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


def _read_file(path: str | None, problems: list[ConfigProblem]) -> tuple[object, dict[str, str]]:
    """What the file says, and at which line each key stands."""
    if path is None:
        return None, {}
    try:
        with Path(path).open("rb") as file:
            raw = file.read(FILE_LIMIT_BYTES + 1)
        if len(raw) > FILE_LIMIT_BYTES:
            raise ConfigError(
                [*problems, ConfigProblem(path, f"larger than {FILE_LIMIT_BYTES} bytes; is it the right file?")]
            )
        content = raw.decode("utf-8-sig")
    except FileNotFoundError:
        return None, {}
    except OSError as error:
        raise ConfigError([ConfigProblem(path, f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise ConfigError([ConfigProblem(path, "is not UTF-8 text")]) from None
    try:
        # Composing builds no values; it shows lines, and keys that stand twice, which loading would merge.
        places = dict(_places(yaml.compose(content, Loader=yaml.SafeLoader), path, "", problems))
        return yaml.safe_load(content), places
    except yaml.YAMLError as error:
        raise ConfigError([_syntax_problem(path, error)]) from None
    except (ValueError, RecursionError):
        raise ConfigError(
            [ConfigProblem(path, "has a value that YAML cannot read (a date or number out of range?)")]
        ) from None


def _places(node: yaml.Node | None, path: str, prefix: str, problems: list[ConfigProblem]) -> Iterator[tuple[str, str]]:
    if not isinstance(node, yaml.MappingNode) or prefix.count(".") > 3:
        return
    seen: set[str] = set()
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            continue
        key = f"{prefix}{key_node.value}"
        place = f"{path}:{key_node.start_mark.line + 1}"
        if key in seen:
            problems.append(ConfigProblem(key, "is written twice; keep one", place))
        seen.add(key)
        yield key, place
        yield from _places(value_node, path, f"{key}.", problems)


def _syntax_problem(path: str, error: yaml.YAMLError) -> ConfigProblem:
    """Place and kind of a syntax error, without the text around it, which may be a password."""
    mark = getattr(error, "problem_mark", None)
    kind = str(getattr(error, "problem", None) or "cannot be parsed").partition("'")[0].partition('"')[0].strip()
    where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark is not None else path
    return ConfigProblem("the file", f"is not valid YAML: {kind}", where)
