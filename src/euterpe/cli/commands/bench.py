"""`euterpe bench`: the queue's speed on the user's own database, measured beside the user's tables and not in them."""

from __future__ import annotations

import asyncio
import signal

import click

from euterpe.cli.bench.measures import BenchReport, Figure, Plan
from euterpe.cli.bench.measures import bench as measure
from euterpe.cli.commands.role import run_on_fast_loop
from euterpe.cli.output import note, print_json, print_line
from euterpe.cli.session import CliSession, database_options, json_option
from euterpe.config import redact_url
from euterpe.runtime.signals import on_signals

INTERRUPTED = 130
WIDTH = 40


@click.command()
@click.option(
    "--jobs", type=click.IntRange(100, 10_000_000), default=20_000, metavar="N", help="Number of jobs; 20000."
)
@click.option("--concurrency", type=click.IntRange(1, 100_000), default=100, metavar="N", help="Jobs at once; 100.")
@click.option("--batch", type=click.IntRange(1, 10_000), default=1000, metavar="N", help="Jobs per transaction; 1000.")
@json_option
@database_options
@click.pass_obj
def bench(session: CliSession, jobs: int, concurrency: int, batch: int, as_json: bool) -> None:
    """Measure the queue's speed on your own database.

    One process submits and runs jobs that do nothing. They are as durable as any other jobs. This takes about half a
    minute. On Postgres it uses a schema of its own, on SQLite a folder beside the file or a temporary one. Both are
    removed at the end, and your own tables are not touched. Other load on the machine or the database makes the
    figures worse.
    """
    plan = Plan(jobs, concurrency, batch)
    report = run(session.url, plan, as_json=as_json)
    if as_json:
        print_json(document(session.url, plan, report))
    for remark in report.remarks:
        note(f"note: {remark}")


def run(url: str, plan: Plan, *, as_json: bool) -> BenchReport:
    reports: list[BenchReport] = []

    def begin(place: str) -> None:
        note(f"measuring in {place}, which is removed at the end")

    def show(figure: Figure) -> None:
        note(line(figure)) if as_json else print_line(line(figure))

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        # A signal must not leave the schema behind. SIGINT too: Python leaves it ignored in a shell's background.
        with on_signals((signal.SIGINT, signal.SIGTERM), task.cancel):
            reports.append(await measure(url, plan, begin, show))

    try:
        run_on_fast_loop(main())
    except (asyncio.CancelledError, KeyboardInterrupt):
        note("euterpe: interrupted; what was made for the measurement is removed")
        raise click.exceptions.Exit(INTERRUPTED) from None
    return reports[0]


def line(figure: Figure) -> str:
    value = f"{figure.value:,.0f}" if figure.value >= 100 else f"{figure.value:,.2f}"
    text = f"{figure.title.ljust(WIDTH)}  {value.rjust(9)} {figure.unit.ljust(6)}"
    return (f"{text}  {figure.about}" if figure.about else text).rstrip()


def document(url: str, plan: Plan, report: BenchReport) -> dict[str, object]:
    return {
        "engine": redact_url(url),
        "settings": {"jobs": plan.jobs, "concurrency": plan.concurrency, "batch": plan.batch},
        "figures": {
            figure.key: {"value": figure.value, "unit": figure.unit, "title": figure.title, "about": figure.about}
            for figure in report.figures
        },
        "remarks": list(report.remarks),
    }
