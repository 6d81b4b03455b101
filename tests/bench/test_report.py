"""The table, the chart and the files of a run, from outcomes made by hand and one real raw probe."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.harness.catalogue import PEERS
from bench.harness.chart import render_chart
from bench.harness.headline import HEADLINE_PEERS, HEADLINE_RATIOS, HEADLINE_SCENARIOS, render_headline
from bench.harness.plan import Choice, choose, make_plan
from bench.harness.report import Run, write_report
from bench.harness.rounds import Outcome, Pace, run_rounds
from bench.harness.scenarios import SCENARIOS, Sizes
from bench.harness.stores import Stores
from bench.harness.summary import summarise
from bench.harness.table import Section, render_ours, render_ratios, render_table
from bench.raw.registry import PROBES

OUTCOMES = [
    Outcome(1, "fast", "drain-x1", {"drain_x1": 20_000.0}),
    Outcome(1, "slow", "drain-x1", {"drain_x1": 400.0}),
    Outcome(2, "fast", "drain-x1", {"drain_x1": 30_000.0}),
    Outcome(2, "slow", "drain-x1", {}, "it <died> & left"),
    Outcome(3, "fast", "drain-x1", {"drain_x1": 26_000.0}),
    Outcome(3, "slow", "drain-x1", {"drain_x1": 500.0}),
    Outcome(3, "fast", "latency", {"latency_p50": 1.234}),
]
(GRAPHILE,) = (subject for subject in PEERS if subject.name == "graphile-worker")
SVG = "{http://www.w3.org/2000/svg}"


def test_a_table_shows_median_and_spread_and_only_columns_with_figures() -> None:
    section = Section("On Postgres", [("fast", "fast 1.0"), ("slow", "slow 2.0")])

    assert render_table(section, summarise(OUTCOMES)).splitlines() == [
        "### On Postgres",
        "",
        "| | drain, 1 worker process, jobs/s | latency p50, ms |",
        "|---|---|---|",
        "| fast 1.0 | 26,000 (20,000-30,000) | 1.23 |",
        "| slow 2.0 | 450 (400-500) | - |",
    ]


def test_what_is_measured_for_us_alone_stands_in_a_table_of_its_own() -> None:
    summary = summarise([*OUTCOMES, Outcome(1, "fast", "submit-64", {"submit_64": 10_000.0})])

    assert "64 single" not in render_table(Section("On Postgres", [("fast", "fast 1.0")]), summary)
    assert render_ours(["fast", "slow"], summary) == (
        "### Ours alone\n\n| | fast | slow |\n|---|---|---|\n| 64 single submits at once, jobs/s | 10,000 | - |"
    )
    assert render_ours(["slow"], summary) is None


def test_ratios_are_taken_inside_the_rounds_that_both_finished() -> None:
    assert render_ratios([("fast", "slow")], summarise(OUTCOMES)).splitlines()[-1] == (
        "| fast : slow | drain, 1 worker process | 51.00 (50.00-52.00) |"
    )


def test_a_chart_is_well_formed_and_draws_a_bar_for_every_figure_in_order() -> None:
    chart = render_chart({"slow": "redis", "fast": "postgres"}, summarise(OUTCOMES), "<A & B>")

    root = ElementTree.fromstring(chart)  # noqa: S314 - our own text
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert root.findtext(f"{SVG}title") == "<A & B>"
    assert texts.index("fast") < texts.index("slow"), "the faster one comes first"
    assert len(list(root.iter(f"{SVG}line"))) == 3, "a whisker for each of the three figures"
    bars = [float(bar.attrib["width"]) for bar in root.iter(f"{SVG}rect") if bar.attrib["height"] == "14"]
    assert bars[0] == pytest.approx(bars[1] * 26_000 / 450, rel=0.01), "lengths are in proportion"


async def test_a_raw_probe_is_measured_and_reported_with_everything_needed_to_judge_it(tmp_path: Path) -> None:
    probes = [probe for probe in PROBES if probe.name.startswith("apsw: INSERT, 1 row")]
    sizes = Sizes(jobs=50)
    choice = Choice(subjects=[GRAPHILE], scenarios=SCENARIOS[:1], probes=probes)
    (tmp_path / "data").mkdir()
    whole_plan = make_plan(choice, Stores(None, None, tmp_path / "data"), sizes)
    plan = [step for step in whole_plan if step.scenario == "raw"]

    outcomes = await run_rounds(plan, Pace(2, ()), lambda _: None)
    failed = Outcome(2, GRAPHILE.name, "drain-x1", {}, "no breath")
    run = Run(
        when=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        command="bench/run --scenario raw",
        rounds=2,
        machine={"cores": "2"},
        servers={"Postgres": "18"},
        choice=choice,
        sizes=sizes,
        outcomes=[*outcomes, failed],
        ratios=[],
    )
    path, markdown = write_report(run, tmp_path / "out")

    document = json.loads(path.with_suffix(".json").read_text())
    median = document["medians"]["apsw: INSERT, 1 row a commit"]["raw"]
    assert median["count"] == 2
    assert 0 < median["low"] <= median["median"] <= median["high"]
    assert document["command"] == "bench/run --scenario raw"
    assert document["outcomes"][-1]["error"] == "no breath"
    assert path.name == "20260102T030405Z.md"
    assert path.with_suffix(".svg").read_text().startswith("<svg")
    for needed in ("cores: 2", "Postgres: 18", "apsw: INSERT, 1 row a commit", "no breath", "concurrent_jobs 24"):
        assert needed in markdown


def test_a_choice_of_raw_limits_alone_starts_no_server_for_peers() -> None:
    choice = choose(PEERS, PROBES, [], ["raw"])

    assert choice.subjects == []
    assert choice.stores == {"postgres", "sqlite"}


def test_the_headline_begins_with_us_at_the_default_settings_and_holds_each_peer_against_that() -> None:
    figures = {
        "euterpe": {
            "drain_x1": 24_000.0,
            "drain_x1_worker_cpu": 20.4,
            "drain_x1_server_cpu": 18.2,
            "drain_x1_wal": 950.0,
        },
        "graphile-worker": {"drain_x1": 16_000.0, "latency_p50": 3.7, "latency_p99": 10.6},
        "huey-sqlite": {"drain_x1": 3_000.0},
    }
    subjects = [subject for subject in PEERS if subject.name in figures]
    summary = summarise([Outcome(1, name, "drain-x1", found) for name, found in figures.items()])

    table = render_headline(subjects, summary)

    assert table is not None
    _, _, head, _, ours, graphile, huey = table.splitlines()
    assert head.startswith("| no-op jobs | drain, jobs/s | Euterpe : it |")
    assert ours.startswith(
        "| **Euterpe on Postgres**, default settings (100 slots) | 24,000 |  | - | - | - | - | 20.4 + 18.2 |"
    )
    assert graphile.startswith(
        f"| graphile-worker {GRAPHILE.environment.version_of('graphile-worker')} | 16,000 | 1.50"
    )
    assert "| 3.70, 10.6 |" in graphile
    assert "| 3,000 |  |" in huey, "we were not measured on its store"
    assert render_headline(subjects[1:], summary) is None


def test_the_headline_asks_for_what_there_is() -> None:
    chosen = choose(PEERS, PROBES, HEADLINE_PEERS, HEADLINE_SCENARIOS)
    assert [subject.name for subject in chosen.subjects if subject.name == "euterpe"] == ["euterpe"]
    assert {name for pair in HEADLINE_RATIOS for name in pair.split(":")} <= {s.name for s in chosen.subjects}
