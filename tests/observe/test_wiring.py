"""Nothing stands in the contract for show: every metric is told by somebody, every log key is used, every key of the
configuration is read. What waits for a part that is not built yet is named here, with the part; the lists only shrink.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import euterpe
from euterpe.config.declaration import Section, Setting, Subsection, declared_in
from euterpe.config.settings import Config
from euterpe.observe.logs import _SET_BY_THE_FORMATTER, ALLOWED_KEYS
from euterpe.observe.metrics import Metrics

SOURCE = Path(euterpe.__file__).parent
PROCESS_TESTS = [Path(__file__).parents[1] / "cli" / name for name in ("test_telemetry.py", "test_list_telemetry.py")]

METRICS_OF_THE_FUTURE: dict[str, str] = {}
KEYS_OF_THE_FUTURE: dict[str, str] = {}
ADDED_BY_THE_GATE = {"trace_id", "span_id", "namespace", "request_id"}
"""From the open span, the configuration and the request that is being answered."""
TOLD_TO = {"telemetry", "_telemetry", "metrics", "_metrics"}


@cache
def modules() -> dict[str, ast.Module]:
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def last_name(value: ast.expr) -> str:
    match value:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name
    return ""


def test_every_metric_is_told_by_somebody_or_waits_for_a_part() -> None:
    told = {
        node.func.attr
        for name, tree in modules().items()
        if name != "observe/metrics.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and last_name(node.func.value) in TOLD_TO
    }
    declared = {name for name in vars(Metrics) if not name.startswith("_")} - {"render", "registry", "ended"}
    assert declared - told == set(METRICS_OF_THE_FUTURE)


def test_every_family_is_seen_in_a_real_process() -> None:
    shown = {line.split()[2] for line in Metrics().render()[1].decode().splitlines() if line.startswith("# TYPE")}
    seen = "".join(path.read_text() for path in PROCESS_TESTS)
    assert {name for name in shown if name not in seen} == set()


def test_every_log_key_is_used_by_some_call() -> None:
    used = {key for tree in modules().values() if has_a_logger(tree) for key in keys_in(tree)}
    assert ALLOWED_KEYS - _SET_BY_THE_FORMATTER - ADDED_BY_THE_GATE - used == set()


def has_a_logger(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "getLogger" for node in ast.walk(tree))


def keys_in(tree: ast.Module) -> Iterator[str]:
    """The texts that are keys of a dictionary, written out or set later."""
    for node in ast.walk(tree):
        match node:
            case ast.Dict(keys):
                yield from (key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))
            case ast.Subscript(slice=ast.Constant(str(key)), ctx=ast.Store()):
                yield key


def test_every_key_of_the_configuration_is_read_or_waits_for_a_part() -> None:
    sections = dict(sections_of(Config))
    read = {
        key for name, tree in modules().items() if name != "config/rules.py" for key in keys_read_in(tree, sections)
    }
    declared = {f"{path}.{entry.attribute}" for path, entry in settings_in(sections)}
    assert declared - read == set(KEYS_OF_THE_FUTURE)


def sections_of(section: type[Section], path: str = "") -> Iterator[tuple[str, type[Section]]]:
    for entry in declared_in(section):
        if isinstance(entry, Subsection):
            where = f"{path}.{entry.attribute}".strip(".")
            yield where, entry.made_of
            yield from sections_of(entry.made_of, where)


def settings_in(sections: dict[str, type[Section]]) -> Iterator[tuple[str, Setting]]:
    for path, section in sections.items():
        for entry in declared_in(section):
            if not isinstance(entry, Subsection):
                yield path, entry


def keys_read_in(tree: ast.Module, sections: dict[str, type[Section]]) -> Iterator[str]:
    """`config.worker.count`, or `worker.count` where `worker` is a section by its assignment or its annotation."""
    by_word = {path.rpartition(".")[2]: path for path in sections}
    by_class = {section.__name__: path for path, section in sections.items()}
    named: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(name)], value=ast.Attribute(attr=word)) if word in by_word:
                named.setdefault(name, set()).add(by_word[word])
            case ast.arg(arg=name, annotation=ast.Name(kind)) if kind in by_class:
                named.setdefault(name, set()).add(by_class[kind])
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Attribute(attr=word), attr=key) if word in by_word:
                yield f"{by_word[word]}.{key}"
            case ast.Attribute(value=ast.Name(name), attr=key):
                yield from (f"{path}.{key}" for path in named.get(name, ()))
