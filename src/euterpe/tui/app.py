"""The screen of `euterpe top`: counts, queues, workers, running jobs and failures, renewed every second."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import ClassVar, Final

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Label, Sparkline, Static

from euterpe.model.errors import EuterpeError
from euterpe.model.job import JobRow
from euterpe.model.state import State
from euterpe.ports import Store
from euterpe.tui.snapshot import QueueLine, Snapshot, WorkerRow, take_snapshot

EVERY_S: Final = 1.0
HISTORY: Final = 120
"""So many points of throughput are drawn."""
ID_SHOWN: Final = 8

Cells = Sequence[str | Text]


class ConfirmScreen(ModalScreen[bool]):
    """Asks before something is done to a job."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape", "answer(False)", "No"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        yield Label(Text(f"{self._question}  y / n"), id="question")

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)


class TopApp(App[None]):
    """One store, looked at again and again. It changes nothing unless a key says so."""

    TITLE = "euterpe top"
    CSS = """
    Static, Sparkline { height: 1; padding: 0 1; }
    Sparkline { width: 100%; }
    #upper { height: 30%; }
    #queues { width: 2fr; } #workers { width: 1fr; }
    #running { height: 1fr; } #failed { height: 30%; }
    DataTable { border-top: solid $primary; }
    ConfirmScreen { align: center middle; }
    #question { padding: 1 3; border: round $warning; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("p", "pause", "Pause"),
        Binding("c", "cancel", "Cancel job"),
        Binding("r", "retry", "Retry job"),
        Binding("tab", "focus_next", "Next table", show=False),
    ]

    def __init__(self, store: Store, every_s: float = EVERY_S) -> None:
        super().__init__()
        self._store = store
        self._every_s = every_s
        self._is_paused = False
        self._finished: deque[float] = deque([0.0] * HISTORY, maxlen=HISTORY)

    def compose(self) -> ComposeResult:
        yield Static("", id="counts")
        yield Sparkline(list(self._finished), id="throughput")
        with Horizontal(id="upper"):
            yield _table("queues", "queue", "waiting", "running", "failed", "oldest")
            yield _table("workers", "worker", "busy", "knows", "state")
        yield _table("running", "job", "type", "queue", "attempt", "for", "progress", "worker")
        yield _table("failed", "job", "type", "state", "attempts", "error")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#running", DataTable).focus()
        self.refresh_snapshot()
        self.set_interval(self._every_s, self.refresh_snapshot)

    @work(exclusive=True)
    async def refresh_snapshot(self) -> None:
        if self._is_paused:
            return
        try:
            self._show(await take_snapshot(self._store))
        except EuterpeError as error:
            self.query_one("#counts", Static).update(Text(f"no answer: {error}", style="bold red"))

    def action_pause(self) -> None:
        self._is_paused = not self._is_paused
        self.notify("paused; p goes on" if self._is_paused else "live again")

    def action_cancel(self) -> None:
        self._act("running", "cancel")

    def action_retry(self) -> None:
        self._act("failed", "retry")

    @work
    async def _act(self, table: str, act: str) -> None:
        job_id = _chosen(self.query_one(f"#{table}", DataTable))
        if job_id is None:
            self.notify(f"there is no job to {act}", severity="warning")
            return
        if not await self.push_screen_wait(ConfirmScreen(f"{act} {job_id[:ID_SHOWN]}?")):
            return
        try:
            if act == "cancel":
                state = await self._store.cancel(job_id)
                message = "it is asked to stop" if state is State.RUNNING else f"it is {state}"
            else:
                message = f"it runs again as {(await self._store.retry(job_id)).id[:ID_SHOWN]}"
        except EuterpeError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        self.notify(f"{job_id[:ID_SHOWN]}: {message}")
        self.refresh_snapshot()

    def _show(self, seen: Snapshot) -> None:
        counts = "  ".join(f"{state} {count:,}" for state, count in seen.states.items() if count)
        ended = "  ".join(f"{state} {count:,}/min" for state, count in seen.per_minute.items() if count)
        unlisted = "" if seen.can_search else "  (this engine cannot list jobs)"
        self.query_one("#counts", Static).update(Text(f"{counts or 'no jobs'}   {ended}{unlisted}"))
        self._finished.append(float(seen.per_minute.get(State.COMPLETED, 0)))
        self.query_one("#throughput", Sparkline).data = list(self._finished)
        _fill(self.query_one("#queues", DataTable), {line.name: _queue_cells(line) for line in seen.queues})
        _fill(self.query_one("#workers", DataTable), {worker.name: _worker_cells(worker) for worker in seen.workers})
        now_us = time.time_ns() // 1000
        _fill(self.query_one("#running", DataTable), {job.id: _running_cells(job, now_us) for job in seen.running})
        _fill(self.query_one("#failed", DataTable), {job.id: _failed_cells(job) for job in seen.failed})


def _table(name: str, *columns: str) -> DataTable[str | Text]:
    table: DataTable[str | Text] = DataTable(id=name, cursor_type="row", zebra_stripes=True)
    table.add_columns(*columns)
    table.border_title = name
    return table


def _fill(table: DataTable[str | Text], rows: dict[str, Cells]) -> None:
    """New rows, with the cursor on the job it was on."""
    chosen, place = _chosen(table), table.cursor_row
    table.clear()
    for key, cells in rows.items():
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in cells), key=key)
    keys = list(rows)
    if keys:
        table.move_cursor(row=keys.index(chosen) if chosen in rows else min(place, len(keys) - 1))


def _chosen(table: DataTable[str | Text]) -> str | None:
    if not table.row_count:
        return None
    return table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value


def _queue_cells(line: QueueLine) -> Cells:
    return (line.name, f"{line.waiting:,}", f"{line.running:,}", f"{line.failed:,}", _age(line.oldest_us))


def _worker_cells(worker: WorkerRow) -> Cells:
    busy = str(worker.holds) if worker.slots is None else f"{worker.holds}/{worker.slots}"
    state = Text(worker.state, style="bold red") if worker.state else "busy" if worker.holds else "idle"
    return (worker.name, busy, ", ".join(worker.types or ()), state)


def _running_cells(job: JobRow, now_us: int) -> Cells:
    run_us = None if job.started_at is None else now_us - job.started_at
    progress = "" if job.progress is None else f"{job.progress:.0f} % {job.progress_message or ''}"
    attempt = f"{job.attempt_count}/{job.max_attempts}"
    return (job.id[:ID_SHOWN], job.type, job.queue, attempt, _age(run_us), progress, job.worker_id or "")


def _failed_cells(job: JobRow) -> Cells:
    error = job.error_document or {}
    message = f"{error.get('code') or error.get('category') or ''}: {error.get('message') or ''}"
    state = Text(str(job.state), style="bold red" if job.state is State.DEAD_LETTER else "red")
    return (job.id[:ID_SHOWN], job.type, state, str(job.attempt_count), message.strip(": "))


def _age(duration_us: int | None) -> str:
    if duration_us is None:
        return "-"
    seconds = max(0, duration_us) // 1_000_000
    minutes, hours = seconds // 60, seconds // 3600
    return f"{hours}h{minutes % 60:02}m" if hours else f"{minutes}m{seconds % 60:02}s" if minutes else f"{seconds}s"
