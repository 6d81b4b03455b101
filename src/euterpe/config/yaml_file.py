"""The one place that knows YAML: what a file says and where, and lists and maps that stand in an environment variable.

The reader is loaded with the first text that needs it. Most processes have no file and never do. It reads by the rules
of YAML 1.1, in which `yes` and `on` are true, as most tools of operators do.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from euterpe.config.problems import ConfigError, ConfigProblem

if TYPE_CHECKING:
    from ruamel.yaml import YAML
    from ruamel.yaml.nodes import Node

FILE_LIMIT_BYTES: Final = 200_000
LISTS_LIMIT: Final = 500
"""Brackets in a file. A reader in pure Python takes long over many that are never closed."""
DEEPEST: Final = 3


def read_file(path: str, problems: list[ConfigProblem]) -> tuple[object, dict[str, str]] | None:
    """What the file says, and at which line each key stands; None if it is not there. Keys that stand twice are added
    to the problems; a file that cannot be read at all raises ConfigError."""
    content = _content(path)
    if content is None:
        return None
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        reader = _reader()
        node = reader.compose(content)  # builds no values; it shows lines, and keys that stand twice
        places = dict(_places(node, path, "", problems))
        return (None if node is None else _built(reader, node)), places
    except YAMLError as error:
        mark = error.problem_mark if isinstance(error, MarkedYAMLError) else None
        message = error.problem if isinstance(error, MarkedYAMLError) else None
        raise ConfigError([_syntax_problem(path, mark, message)]) from None
    except (ValueError, TypeError, RecursionError):
        raise ConfigError(
            [ConfigProblem(path, "has a value that YAML cannot read (a date or number out of range?)")]
        ) from None


def flow_value(text: str) -> object:
    """A list or map out of an environment variable, written as JSON or YAML. Raises ValueError for what is neither."""
    from ruamel.yaml.error import YAMLError

    try:
        reader = _reader()
        node = reader.compose(_bounded(text))
        return None if node is None else _built(reader, node)
    except (YAMLError, TypeError, RecursionError):
        raise ValueError("is not valid YAML") from None


def _content(path: str) -> str | None:
    try:
        with Path(path).open("rb") as file:
            raw = file.read(FILE_LIMIT_BYTES + 1)
        if len(raw) > FILE_LIMIT_BYTES:
            raise ConfigError([ConfigProblem(path, f"larger than {FILE_LIMIT_BYTES} bytes; is it the right file?")])
        return _bounded(raw.decode("utf-8-sig"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError([ConfigProblem(path, f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise ConfigError([ConfigProblem(path, "is not UTF-8 text")]) from None
    except ValueError as error:
        raise ConfigError([ConfigProblem(path, str(error))]) from None


def _bounded(text: str) -> str:
    if text.count("[") > LISTS_LIMIT:
        raise ValueError(f"has more than {LISTS_LIMIT} lists; is it the right file?")
    return text


def _reader() -> YAML:
    from ruamel.yaml import YAML

    reader = YAML(typ="safe", pure=True)
    reader.version = (1, 1)
    reader.allow_duplicate_keys = True  # told with their lines, and not as a syntax error
    return reader


def _built(reader: YAML, node: Node) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on numbers that look odd; ours are checked by their kinds
        value: object = reader.constructor.construct_document(node)
    return value


def _places(node: Node | None, path: str, prefix: str, problems: list[ConfigProblem]) -> Iterator[tuple[str, str]]:
    from ruamel.yaml.nodes import MappingNode, ScalarNode

    if not isinstance(node, MappingNode) or prefix.count(".") > DEEPEST:
        return
    seen: set[str] = set()
    for key_node, value_node in node.value:
        if not isinstance(key_node, ScalarNode):
            continue
        key = f"{prefix}{key_node.value}"
        place = f"{path}:{key_node.start_mark.line + 1}"
        if key in seen:
            problems.append(ConfigProblem(key, "is written twice; keep one", place))
        seen.add(key)
        yield key, place
        yield from _places(value_node, path, f"{key}.", problems)


def _syntax_problem(path: str, mark: Any, message: str | None) -> ConfigProblem:
    """Place and kind of a syntax error, without the text around it, which may be a password."""
    kind = (message or "cannot be parsed").partition("'")[0].partition('"')[0].strip()
    where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark is not None else path
    return ConfigProblem("the file", f"is not valid YAML: {kind}", where)
