"""A command group that knows its commands by one line each, and loads a command's file when it is called.

`euterpe --help` must answer at once; importing every command would bring the drivers, the API and the tables along.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a command lives (`module:name`), what it does in one line, and under which heading it is shown."""

    place: str
    about: str
    heading: str


class LazyGroup(click.Group):
    """Shows `known` in its help without importing any of it."""

    def __init__(self, *args: Any, known: Mapping[str, LazyCommand], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.known = known

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(self.known)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        known = self.known.get(cmd_name)
        if known is None:
            return None
        module, _, name = known.place.partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        headings = dict.fromkeys(known.heading for known in self.known.values())
        width = max(map(len, self.known))
        for heading in headings:
            with formatter.section(heading):
                rows = [(name.ljust(width), k.about) for name, k in self.known.items() if k.heading == heading]
                formatter.write_dl(rows)
