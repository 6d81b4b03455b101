"""Every log call of our own passes our own gate: a constant message, numbers in it, keys that were agreed on.

Read from the source, so that a call nobody has ever seen run is found too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import euterpe
from euterpe.observe.logs import _SET_BY_THE_FORMATTER, ALLOWED_KEYS

SOURCE = Path(euterpe.__file__).parent
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
LOGGERS = {"log", "logger", "_log", "_logger"}
MAY_CARRY = ALLOWED_KEYS - _SET_BY_THE_FORMATTER
GIVES_KEYS = {"job_keys"}
"""Functions whose own keys are checked by the same look at their source."""
FOR_NUMBERS = set("dfgeixX%")


def calls_in(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in LEVELS
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id in LOGGERS
        ):
            yield node


def problems_of(path: Path) -> list[str]:
    tree = ast.parse(path.read_text())
    assigned = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = []
    for call in calls_in(tree):
        where = f"{path.relative_to(SOURCE)}:{call.lineno}"
        found += [f"{where}: {problem}" for problem in (*wrong_message(call, assigned), *wrong_keys(call, assigned))]
    return found


def wrong_message(call: ast.Call, assigned: dict[str, ast.expr]) -> Iterator[str]:
    message = call.args[0]
    if isinstance(message, ast.Name):
        message = assigned.get(message.id, message)
    if not isinstance(message, ast.Constant) or not isinstance(message.value, str):
        yield "the message is not a constant text"
        return
    parts = message.value.replace("%%", "").split("%")[1:]
    kinds = [next((char for char in part if char.isalpha()), "?") for part in parts]
    if not FOR_NUMBERS.issuperset(kinds):
        yield f"the message has a place for something that is no number: {message.value!r}"
    if len(kinds) != len(call.args) - 1:
        yield f"{len(call.args) - 1} arguments for {len(kinds)} places"


def wrong_keys(call: ast.Call, assigned: dict[str, ast.expr]) -> Iterator[str]:
    for keyword in call.keywords:
        if keyword.arg == "extra":
            yield from wrong_keys_of(keyword.value, assigned)
        elif keyword.arg not in ("exc_info", "stacklevel"):
            yield f"{keyword.arg}= does not belong to a log call"


def wrong_keys_of(value: ast.expr | None, assigned: dict[str, ast.expr]) -> Iterator[str]:
    match value:
        case ast.Dict(keys, values):
            for key, item in zip(keys, values, strict=True):
                if key is None:
                    yield from wrong_keys_of(item, assigned)
                elif not isinstance(key, ast.Constant) or key.value not in MAY_CARRY:
                    yield f"{ast.unparse(key)} is not an allowed key"
        case ast.IfExp(body=body, orelse=orelse):
            yield from wrong_keys_of(body, assigned)
            yield from wrong_keys_of(orelse, assigned)
        case ast.Name(name) if name in assigned:
            yield from wrong_keys_of(assigned[name], assigned)
        case ast.Call(func=ast.Name(name)) if name in GIVES_KEYS:
            return
        case _:
            yield f"nobody can tell which keys {ast.unparse(value) if value else value} has"


def test_every_log_call_of_ours_passes_our_gate() -> None:
    problems = [problem for path in sorted(SOURCE.rglob("*.py")) for problem in problems_of(path)]
    assert problems == []


def test_the_look_at_the_source_sees_the_calls_at_all() -> None:
    calls = sum(len(list(calls_in(ast.parse(path.read_text())))) for path in SOURCE.rglob("*.py"))
    assert calls > 40


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ('log.info("started by %s", name)', "no number"),
        ('log.info(f"started {name}")', "not a constant"),
        ('log.info("started", extra={"payload": x})', "'payload' is not an allowed key"),
        ('log.info("started", extra=anything)', "nobody can tell"),
        ('log.info("%d started")', "0 arguments for 1"),
    ],
)
def test_a_wrong_call_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, word: str) -> None:
    monkeypatch.setattr(f"{__name__}.SOURCE", tmp_path)
    (tmp_path / "wrong.py").write_text(f"{line}\n")
    (problem,) = problems_of(tmp_path / "wrong.py")
    assert word in problem
