"""The reference tables of docs/configuration.md, made from the declarations so that the page cannot lie."""

from __future__ import annotations

from collections.abc import Iterator

from euterpe.config.loading import all_settings, environment_name
from euterpe.config.sections import Config
from euterpe.config.settings import Subsection, declared_in


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
