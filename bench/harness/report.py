"""What a run leaves behind in `bench/out/`: figures as JSON, tables as Markdown, a chart as SVG."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

from bench.harness.catalogue import OURS
from bench.harness.chart import render_chart
from bench.harness.environments import BENCH
from bench.harness.headline import render_headline
from bench.harness.plan import Choice
from bench.harness.rounds import Outcome
from bench.harness.scenarios import Sizes
from bench.harness.shape_table import render_shapes
from bench.harness.statistics import spread
from bench.harness.summary import Summary, summarise
from bench.harness.table import Section, render_failures, render_ours, render_ratios, render_table

OUT = BENCH / "out"
STORE_TITLES = {
    "postgres": "On Postgres",
    "postgres+redis": "On Postgres, woken by Redis Streams",
    "redis": "On Redis",
    "sqlite": "On SQLite",
}


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that a reader needs in order to judge or repeat the figures."""

    when: datetime
    command: str
    rounds: int
    machine: dict[str, str]
    servers: dict[str, str]
    choice: Choice
    sizes: Sizes
    outcomes: Sequence[Outcome]
    ratios: Sequence[tuple[str, str]]


def describe_machine() -> dict[str, str]:
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    return {
        "cores": str(os.cpu_count()),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "node": node or "absent",
        "load before the run": f"{os.getloadavg()[0]:.2f}",
    }


def render_markdown(run: Run, summary: Summary) -> str:
    others = spread([outcome.others_cores for outcome in run.outcomes])
    disturbance = f"{others.median:.2f} ({others.low:.2f}-{others.high:.2f})"
    facts = {**run.machine, **run.servers, "cores taken by other programs": disturbance}
    parts = [
        f"# Benchmark of {run.when:%Y-%m-%d %H:%M} UTC",
        f"`{run.command}`; {run.rounds} interleaved rounds; cells are median (low-high). "
        + "; ".join(f"{name}: {value}" for name, value in facts.items()),
    ]
    if (shapes := render_shapes(run.choice.subjects, summary)) is not None:
        parts.append(shapes)
    if (headline := render_headline(run.choice.subjects, summary)) is not None:
        parts.append(headline)
    for store, title in STORE_TITLES.items():
        rows = [
            (subject.name, f"{subject.name} {subject.environment.version_of(subject.distribution)}")
            for subject in run.choice.subjects
            if subject.store == store
        ]
        if rows:
            parts.append(render_table(Section(title, rows), summary))
    if (ours := render_ours([subject.name for subject in OURS], summary)) is not None:
        parts.append(ours)
    if run.choice.probes:
        rows = [(probe.name, probe.name) for probe in run.choice.probes]
        parts.append(render_table(Section("Raw limits", rows), summary))
    if run.ratios:
        parts.append(render_ratios(run.ratios, summary))
    if summary.failures:
        parts.append(render_failures(summary))
    parts.append(render_settings(run))
    return "\n\n".join(parts) + "\n"


def render_settings(run: Run) -> str:
    lines = [
        "### Settings",
        "",
        "| | settings | jobs in a drain | left of a finished job |",
        "|---|---|---|---|",
    ]
    for subject in run.choice.subjects:
        settings = ", ".join(f"{key} {value}" for key, value in subject.settings.items())
        lines.append(f"| {subject.name} | {settings} | {run.sizes.count(subject.drain_jobs):,} | {subject.keeps} |")
    return "\n".join(lines)


def as_document(run: Run, summary: Summary) -> dict[str, object]:
    return {
        "when": run.when.isoformat(),
        "command": run.command,
        "rounds": run.rounds,
        "sizes": asdict(run.sizes),
        "machine": run.machine,
        "servers": run.servers,
        "subjects": [
            {
                "name": subject.name,
                "store": subject.store,
                "version": subject.environment.version_of(subject.distribution),
                "settings": dict(subject.settings),
                "keeps": subject.keeps,
            }
            for subject in run.choice.subjects
        ],
        "outcomes": [asdict(outcome) for outcome in run.outcomes],
        "medians": {
            subject: {
                metric: asdict(value) for metric in by_metric if (value := summary.spread(subject, metric)) is not None
            }
            for subject, by_metric in summary.figures.items()
        },
    }


def write_report(run: Run, folder: Path = OUT) -> tuple[Path, str]:
    """Returns the Markdown's path and text; the JSON and the SVG lie beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    summary = summarise(run.outcomes)
    stem = folder / f"{run.when:%Y%m%dT%H%M%SZ}"
    stem.with_suffix(".json").write_text(json.dumps(as_document(run, summary), indent=1) + "\n")
    groups: dict[str, str] = {subject.name: subject.store for subject in run.choice.subjects}
    groups |= {probe.name: "raw" for probe in run.choice.probes}
    title = f"Benchmark of {run.when:%Y-%m-%d %H:%M} UTC"
    stem.with_suffix(".svg").write_text(render_chart(groups, summary, title))
    markdown = render_markdown(run, summary)
    stem.with_suffix(".md").write_text(markdown)
    return stem.with_suffix(".md"), markdown


def now() -> datetime:
    return datetime.now(UTC)
