"""Finds the place of a planted bug by its name, so that a bug survives when its code moves to another file.

A place is one of these:

    claim                       a function, class or constant of the package
    Exchange.run                a method or an attribute of a class
    loop.py:run                 the same in one module, where several have the name
    postgres/turn.sql           a whole file, by as much of the end of its path as no other file has
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

SUFFIX = re.compile(r"\.(py|sql|lua|js|css|html|json|yaml)$")

DEFINED = re.compile(r"^ *(?:async def |def |class |)(\w+)(?=[(:\[ ])", re.MULTILINE)


class Place(NamedTuple):
    """A span of a file's text, by its characters."""

    path: Path
    start: int
    end: int


def places_of(package: Path, name: str) -> list[Place]:
    """Every place with this name. A bug fits if there is one."""
    module, _, symbol = name.rpartition(":")
    if not module and SUFFIX.search(name):
        return [Place(path, 0, len(path.read_text())) for path in _ending_in(package, name)]
    paths = _modules_by_word(package).get(symbol.rpartition(".")[2], set())
    if module:
        paths = paths & set(_ending_in(package, module))
    return [place for path in sorted(paths) for place in _symbols(path, path.read_text(), symbol)]


def _ending_in(package: Path, end: str) -> list[Path]:
    return [path for path in _files(package) if f"/{path.relative_to(package).as_posix()}".endswith(f"/{end}")]


@cache
def _files(package: Path) -> tuple[Path, ...]:
    return tuple(path for path in sorted(package.rglob("*")) if SUFFIX.search(path.name))


@cache
def _modules_by_word(package: Path) -> dict[str, set[Path]]:
    """Modules by what they seem to define: only those that may have a symbol are parsed."""
    modules: dict[str, set[Path]] = {}
    for path in _files(package):
        if path.suffix == ".py":
            for word in DEFINED.findall(path.read_text()):
                modules.setdefault(word, set()).add(path)
    return modules


def _symbols(path: Path, text: str, symbol: str) -> Iterator[Place]:
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for node in _named(_parsed(text).body, symbol.split(".")):
        first = min([node.lineno, *(line.lineno for line in getattr(node, "decorator_list", ()))])
        yield Place(path, lines[first - 1], lines[node.end_lineno or node.lineno])


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _named(body: Sequence[ast.stmt], symbol: Sequence[str]) -> Iterator[ast.stmt]:
    name, *inner = symbol
    for node in body:
        if name in _names_of(node):
            if not inner:
                yield node
            elif isinstance(node, ast.ClassDef):
                yield from _named(node.body, inner)
        elif isinstance(node, ast.If | ast.Try):
            yield from _named(node.body, symbol)


def _names_of(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign():
            return [target.id for target in node.targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []
