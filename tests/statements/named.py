"""Finds the statements that the code names. A text is known by its file's name, and by its folder and that name."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path

from euterpe.stores.sql.statements import _OTHER, Family

QUERIES = Path(str(files("euterpe.stores.sql"))) / "queries"
FAMILIES: tuple[Family, ...] = ("sqlite", "postgres")


@cache
def texts() -> dict[str, dict[str, Path]]:
    """Every text by its folder and name: the file of each engine that has one of its own, or the shared one for all."""
    shared: dict[str, dict[str, Path]] = {}
    own: dict[str, dict[str, Path]] = {}
    for file in sorted(QUERIES.rglob("*.sql")):
        path = file.relative_to(QUERIES).with_suffix("").parts
        families = [family for family in FAMILIES if family in path]
        name = "/".join(part for part in path if part not in FAMILIES)
        (own if families else shared).setdefault(name, {}).update(dict.fromkeys(families or FAMILIES, file))
    return {name: shared.get(name, {}) | own.get(name, {}) for name in shared | own}


@cache
def named() -> frozenset[str]:
    """The texts that a string of the code names, whole or with parts filled in."""
    strings: set[str] = set()
    patterns: set[str] = set()
    for module in Path(str(files("euterpe"))).rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.JoinedStr):
                patterns.add("".join(_pattern(part) for part in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                strings.add(node.value)
    filled = re.compile("|".join(pattern for pattern in patterns if re.search("[a-z]{4}", pattern)))
    return _known_by(lambda name: name in strings or filled.fullmatch(name) is not None)


@cache
def parts() -> frozenset[str]:
    """Texts that others are made of. One that is all of another is not meant: both are the same statement."""
    contents = [raw for file in QUERIES.rglob("*.sql") if not _OTHER.fullmatch(raw := file.read_text())]
    braces = (word for raw in contents for word in re.findall(r"\{\{([^}]+)\}\}", raw))
    words = {word.split()[-1] for word in braces if " " not in word or word.startswith(("packed ", "as_json "))}
    return _known_by(words.__contains__)


def is_declared(name: str) -> bool:
    return any(file.read_text().startswith("-- takes: ") for file in texts()[name].values())


def _known_by(is_known: Callable[[str], bool]) -> frozenset[str]:
    return frozenset(name for name in texts() if is_known(name) or is_known(name.rpartition("/")[2]))


def _pattern(part: ast.expr) -> str:
    return re.escape(str(part.value)) if isinstance(part, ast.Constant) else "[a-z_]+"
