"""What the demo shows: headings, remarks and, at a terminal, live bars. In a pipe everything is plain lines."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from euterpe.model.job import JobRow
from euterpe.model.state import TERMINAL, State

BARS = 9
PROGRESS_STEP = 20
WIDTH = 79


@dataclass(frozen=True, slots=True)
class Picture:
    """The jobs at one moment, with the names that the demo gave them."""

    jobs: Sequence[JobRow]
    names: dict[str, str]

    @property
    def done(self) -> int:
        return sum(job.state in TERMINAL for job in self.jobs)

    @property
    def running(self) -> list[JobRow]:
        return sorted((job for job in self.jobs if job.state is State.RUNNING), key=lambda job: job.seq)

    def name(self, job: JobRow) -> str:
        return self.names.get(job.id, job.type)


class DemoConsole(Protocol):
    """Where the demo is shown."""

    def heading(self, text: str) -> None: ...

    def remark(self, text: str) -> None: ...

    def proof(self, text: str, *, holds: bool) -> None: ...

    def show(self, picture: Picture) -> None: ...

    def transcode(self, attempt: int, percent: float, note: str) -> None:
        """How far one is, and in which attempt."""


class PlainStage:
    """Lines only: one for each job that ends."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._last_shown = (0, 0)

    def heading(self, text: str) -> None:
        click.echo(f"\n{text}")

    def remark(self, text: str) -> None:
        click.echo(f"  {text}")

    def proof(self, text: str, *, holds: bool) -> None:
        click.echo(
            textwrap.fill(text, WIDTH, initial_indent=f"  {'ok  ' if holds else 'FAIL'} ", subsequent_indent=" " * 7)
        )

    def show(self, picture: Picture) -> None:
        for job in picture.jobs:
            if job.state in TERMINAL and job.id not in self._seen:
                self._seen.add(job.id)
                by = (job.worker_id or "").partition(":")[0]
                where = f" on {by}" if by else ""
                attempt = f" (attempt {job.attempt_count})" if job.attempt_count > 1 else ""
                self.remark(f"[{len(self._seen)}/{len(picture.jobs)}] {picture.name(job)} {job.state}{where}{attempt}")

    def transcode(self, attempt: int, percent: float, note: str) -> None:
        """A line for each step that is reached: a pipe needs no more."""
        reached = (attempt, int(percent) // PROGRESS_STEP)
        if reached > self._last_shown:
            self._last_shown = reached
            self.remark(f"attempt {attempt}: {percent:5.1f} %  {note}")


class LiveStage:
    """Bars for what runs, with remarks above them."""

    def __init__(self, console: Console, progress: Progress) -> None:
        self._console = console
        self._progress = progress
        self._all = progress.add_task("all jobs", total=None, note="")
        self._transcode = progress.add_task("transcode", total=100, visible=False, note="")
        self._bars: list[TaskID] = [progress.add_task("", total=100, visible=False, note="") for _ in range(BARS)]

    def heading(self, text: str) -> None:
        self._console.print(f"\n[bold]{text}[/bold]", highlight=False)

    def remark(self, text: str) -> None:
        self._console.print(f"  {text}", markup=False, highlight=False)

    def proof(self, text: str, *, holds: bool) -> None:
        mark = ("✓", "green") if holds else ("✗", "bold red")
        body = textwrap.fill(text, WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 4)
        self._console.print(Text.assemble("  ", mark, body[3:]), highlight=False)

    def show(self, picture: Picture) -> None:
        waiting = sum(job.state in (State.RETRYING, State.DELAYED) for job in picture.jobs)
        note = f"{picture.done}/{len(picture.jobs)}" + (f", {waiting} wait" if waiting else "")
        self._progress.update(self._all, completed=picture.done, total=len(picture.jobs), note=note)
        running = picture.running[:BARS]
        for bar, job in zip(self._bars, [*running, *[None] * (BARS - len(running))], strict=True):
            if job is None:
                self._progress.update(bar, visible=False)
                continue
            by = (job.worker_id or "").partition(":")[0]
            again = f", attempt {job.attempt_count}" if job.attempt_count > 1 else ""
            self._progress.update(
                bar, visible=True, description=picture.name(job), completed=job.progress or 0, note=f"{by}{again}"
            )

    def transcode(self, attempt: int, percent: float, note: str) -> None:
        text = f"{percent:.0f} %  {note}, attempt {attempt}"
        self._progress.update(self._transcode, visible=True, completed=percent, note=text)


@contextmanager
def open_stage() -> Iterator[DemoConsole]:
    """Live at a terminal, plain elsewhere."""
    if not sys.stdout.isatty():
        yield PlainStage()
        return
    console = Console()
    progress = Progress(
        TextColumn("  {task.description:<12}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[note]}"),
        console=console,
        transient=True,
    )
    with progress:
        yield LiveStage(console, progress)
