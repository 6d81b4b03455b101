"""Prepares the pages of the site in build/docs: those of docs/, and the reference. A link to a file of the repository
becomes absolute where `[project.urls]` has the `Source`, else the path of that file.

The reference is made from signatures and docstrings. Every public name of `euterpe` and of the modules that users
import is in it, with its public methods.
"""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MODULES = ("euterpe", "euterpe.testing", "euterpe.webhooks", "euterpe.fastapi")


def prepare(target: Path) -> None:
    """A clean copy each time: a page that was removed must not stay on the site."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(ROOT / "docs", target)
    source = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"].get("urls", {}).get("Source")
    for page in target.rglob("*.md"):
        page.write_text(linked(page.read_text(), "../" * len(page.relative_to(target).parts), source))
    (target / "reference.md").write_text("\n".join(reference()))


def linked(text: str, up: str, source: str | None) -> str:
    """The page with its links out of docs/ as the site can have them."""
    if source is not None:
        return text.replace(f"]({up}", f"]({source}/blob/main/")

    def named(found: re.Match[str]) -> str:
        label, path = found[1], found[2]
        return f"`{path}`" if label.strip("`") == path else f"{label} (`{path}`)"

    return re.sub(rf"\[([^\]]+)\]\({re.escape(up)}([^)\s]+)\)", named, text)


def reference() -> Iterator[str]:
    yield "# Python API\n\nMade from the docstrings. Everything that is not on this page is private.\n"
    for place in MODULES:
        try:
            module = importlib.import_module(place)
        except ModuleNotFoundError as missing:
            yield f"## {place}\n\nNot shown: the package {missing.name} was not there when this page was made.\n"
            continue
        yield f"## {place}\n\n{documented(module.__doc__)}"
        for name, value in entries(module):
            yield from section(name, value)


def entries(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for name in sorted(vars(module)["__all__"], key=str.lower):
        yield name, getattr(module, name)


def documented(text: str | None) -> str:
    """A docstring as Markdown: what stands under `Example:` is code."""
    said, _, example = inspect.cleandoc(text or "").partition("\nExample:\n")
    return f"{said}\n" + (f"\n```python\n{dedent(example).strip()}\n```\n" if example else "")


def signature(value: Any) -> str:
    try:
        found = str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""
    return re.sub(r"'([^']*)'", r"\1", found)  # annotations are texts here


def section(name: str, value: Any) -> Iterator[str]:
    yield f"### {name}\n"
    is_error = inspect.isclass(value) and issubclass(value, Exception)
    if (inspect.isfunction(value) or inspect.isclass(value)) and not is_error:
        yield f"```python\n{name}{signature(value)}\n```\n"
        yield documented(value.__doc__)
    elif is_error:
        yield documented(value.__doc__)
    if not inspect.isclass(value):
        return
    for method, member in vars(value).items():
        if method.startswith("_") or not (inspect.isfunction(member) or isinstance(member, property)):
            continue
        shape = "" if isinstance(member, property) else signature(member)
        yield f"#### {name}.{method}\n\n```python\n{name}.{method}{shape}\n```\n"
        yield documented(member.__doc__)


if __name__ == "__main__":
    prepare(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "docs")
