"""The tables of docs/configuration.md and the example file, made from the declarations so that they cannot lie."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Final

from euterpe.config.declaration import Section, Subsection, declared_in
from euterpe.config.loading import all_settings, environment_name
from euterpe.config.settings import Config
from euterpe.config.value_types import written

EXAMPLE_HEAD: Final = """\
# A configuration of Euterpe: euterpe --role=all --config=euterpe.yaml
# Every key is here with its default, behind a #. Remove the # to change one.
# The environment wins over this file: worker.count is EUTERPE_WORKER_COUNT or WORKER_COUNT.
# Keep passwords there and not here: EUTERPE_ENGINE_URL, EUTERPE_REDIS_PASSWORD.
"""
WIDTH: Final = 110


def example() -> str:
    """A YAML file in which every key stands as a comment, with its meaning and its default."""
    return "\n".join([EXAMPLE_HEAD.rstrip(), *_example_of(Config, 0), ""])


def _example_of(section: type[Section], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for entry in declared_in(section):
        if isinstance(entry, Subsection):
            if depth == 0:
                yield ""
            yield from _comment((entry.made_of.__doc__ or "").strip(), indent)
            yield f"{indent}{entry.key}:"
            yield from _example_of(entry.made_of, depth + 1)
        else:
            yield from _comment(entry.about, indent)
            default = entry.kind.show(entry.default)
            yield f"{indent}# {entry.key}: {written(default) if isinstance(entry.default, str) else default}"


def _comment(text: str, indent: str) -> Iterator[str]:
    for line in textwrap.wrap(text, WIDTH - len(indent), break_long_words=False):
        yield f"{indent}## {line}"


def reference() -> str:
    """Every key as Markdown, one table a section."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    for entry in declared_in(Config):
        assert isinstance(entry, Subsection)
        yield f"### {entry.key}\n"
        yield f"{(entry.made_of.__doc__ or '').strip()}\n"
        yield "| key | environment | default | takes | meaning |"
        yield "| --- | --- | --- | --- | --- |"
        for path, setting in all_settings(entry.made_of, f"{entry.key}."):
            default = setting.kind.show(setting.default) or '""'
            cells = (
                f"`{path}`",
                f"`{environment_name(path)}`",
                f"`{default}`",
                setting.kind.expected,
                setting.about,
            )
            yield f"| {' | '.join(cells)} |"
        yield ""


if __name__ == "__main__":
    print(reference())
