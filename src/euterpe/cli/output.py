"""What commands print: tables for people, JSON for programs.

At a terminal tables fit its width and have colours; in a pipe each row is one uncut line without any. Text out of the
database may hold anything, so control characters are shown as escapes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import click
import msgspec

PIPE_WIDTH: Final = 1_000
GAP: Final = 2
LEAST: Final = 6
NUMBERS: Final = frozenset(
    {"done", "of", "jobs", "first", "last", "attempt", "attempts", "age", "took", "tries", "secrets"}
)
JustifyMethod = Literal["left", "right"]
STATE_STYLES: Final = {
    "completed": "green",
    "delivered": "green",
    "running": "cyan",
    "retrying": "yellow",
    "delayed": "blue",
    "pending": "blue",
    "failed": "red",
    "dead_letter": "bold red",
    "cancelled": "dim",
}


def print_json(document: Any) -> None:
    """One document, indented: as readable for people as for programs."""
    click.echo(shown_json(msgspec.json.format(msgspec.json.encode(document), indent=2)))


def shown_json(document: bytes) -> bytes:
    """In a pipe as it is. At a terminal, what would draw on it or turn its text round is escaped: the same JSON."""
    if not sys.stdout.isatty():
        return document
    text = document.decode()
    return "".join(char if char.isprintable() or char == "\n" else _escape(char) for char in text).encode()


def _escape(char: str) -> str:
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, flexible: str = "") -> None:
    """Columns under headers, one line a row. On a narrow terminal only the `flexible` column gives way."""
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)
    texts = [[printable("" if value is None else str(value)) for value in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(headers, *texts, strict=True)]
    over = sum(widths) + GAP * (len(headers) - 1) - console.width
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for header, width in zip(headers, widths, strict=True):
        fitting = max(LEAST, width - over) if header == flexible and over > 0 else width
        justify: JustifyMethod = "right" if header in NUMBERS else "left"
        table.add_column(header.upper(), no_wrap=True, overflow="ellipsis", width=fitting, justify=justify)
    for row in texts:
        cells = zip(headers, row, strict=True)
        table.add_row(*(Text(text, STATE_STYLES.get(text, "") if header == "state" else "") for header, text in cells))
    console.print(table)


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Name and value, one pair a line; what is None is left out."""
    present = [(name, value) for name, value in fields if value is not None]
    width = max((len(name) for name, _ in present), default=0)
    for name, value in present:
        text = printable(str(value))
        colour = STATE_STYLES.get(text, "") if name == "state" else ""
        shown = click.style(text, fg=colour.split()[-1] if colour not in ("", "dim") else None)
        click.echo(f"{name.ljust(width)}  {shown}")


def print_line(line: str = "") -> None:
    """A line for people, on standard output."""
    click.echo(printable(line))


def note(line: str) -> None:
    """A remark beside the answer: on standard error, so that a pipe gets the answer alone."""
    click.echo(printable(line), err=True)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something that cannot be undone. Without a person to ask, `--yes` must say so."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Nobody is here to ask: add --yes.")
    if not click.confirm(question, err=True):
        note("Nothing was done.")
        raise click.exceptions.Exit(1)


def printable(text: str) -> str:
    """The text with what would draw on the terminal or break the line as an escape: `\\x1b`, `\\n`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def age(at_us: int | None, now_us: int | None = None) -> str:
    """How long ago, in one unit: `42s`, `7m`, `3h`, `12d`."""
    if at_us is None:
        return ""
    return span((time.time_ns() // 1000 if now_us is None else now_us) - at_us)


def span(duration_us: int) -> str:
    """About how long, in one unit."""
    seconds = max(0, duration_us) // 1_000_000
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length or (unit == "d" and seconds >= length):
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
