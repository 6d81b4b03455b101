"""The list of peers against the files that it names, and the command line's choice among them."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import cast

import pytest

from bench.compare import MEASUREMENTS
from bench.harness.catalogue import PEERS, Subject
from bench.harness.environments import BENCH, PINS, REPOSITORY
from bench.harness.peer_process import PeerFailed
from bench.harness.plan import UnknownName, choose, make_plan, with_settings
from bench.harness.scenarios import SCENARIOS, Sizes
from bench.harness.stores import NotDurable, Stores, require_durable
from bench.raw.registry import PROBES


@pytest.mark.parametrize("subject", PEERS, ids=lambda subject: subject.name)
def test_a_subject_has_an_adapter_and_a_version_to_report(subject: Subject) -> None:
    if subject.environment.kind == "node":
        assert (REPOSITORY / subject.adapter).is_file()
    else:
        assert importlib.util.find_spec(subject.adapter) is not None
    version = subject.environment.version_of(subject.distribution)
    if subject.environment.kind == "repository":
        assert version == "this checkout"
    else:
        assert re.fullmatch(r"\d+(\.\d+)+", version)


def test_every_peer_that_the_issue_names_is_there_on_its_store() -> None:
    by_store = {
        store: {subject.name for subject in PEERS if subject.store == store}
        for store in ("postgres", "redis", "sqlite")
    }

    assert by_store["postgres"] >= {"pgqueuer", "procrastinate", "awa-pg", "graphile-worker", "pg-boss"}
    assert by_store["redis"] >= {"dramatiq", "taskiq", "celery", "rq", "huey-redis", "bullmq"}
    assert by_store["sqlite"] >= {"huey-sqlite"}


def test_pins_are_exact_and_name_no_registry() -> None:
    for pins in PINS.rglob("*.txt"):
        assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in pins.read_text().split()), pins
    for package in PINS.rglob("package.json"):
        versions = json.loads(package.read_text())["dependencies"].values()
        assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions), package
    assert not list(PINS.rglob("package-lock.json"))


def test_environments_and_results_stay_out_of_the_repository() -> None:
    assert {".envs/", "out/"} <= set((BENCH / ".gitignore").read_text().split())


def test_a_peer_without_a_bulk_call_is_not_measured_for_it() -> None:
    (bulk,) = (scenario for scenario in SCENARIOS if scenario.name == "submit-bulk")
    fitting = {subject.name for subject in PEERS if bulk.fits(subject)}

    assert "graphile-worker" in fitting
    assert "dramatiq" not in fitting


def test_a_subject_that_says_something_in_some_scenarios_only_is_measured_in_those() -> None:
    plan = make_plan(choose(PEERS, PROBES, ["euterpe", "euterpe-http"], []), cast(Stores, None), Sizes())
    measured = {name: {m.scenario for m in plan if m.subject == name} for name in ("euterpe", "euterpe-http")}

    assert measured["euterpe-http"] == {"drain-x1", "latency"}
    assert measured["euterpe"] >= {scenario.name for scenario in SCENARIOS}


def test_an_unknown_peer_or_scenario_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"--peer sidequeue is unknown; there are .*graphile-worker"):
        choose(PEERS, PROBES, ["sidequeue"], [])
    with pytest.raises(UnknownName, match="--scenario sprint is unknown; there are submit-one"):
        choose(PEERS, PROBES, [], ["sprint"])


def test_a_setting_can_be_tried_out_from_the_command_line() -> None:
    changed = {subject.name: subject for subject in with_settings(PEERS, ["pgqueuer.batch_size=100"])}

    assert changed["pgqueuer"].settings["batch_size"] == 100
    with pytest.raises(UnknownName, match="names no setting"):
        with_settings(PEERS, ["pgqueuer.colour=red"])


def test_data_on_a_memory_disk_is_refused(tmp_path: Path) -> None:
    folder = tmp_path.resolve()

    require_durable(folder / "data", {Path("/"): "ext4"})
    with pytest.raises(NotDurable, match="lies on tmpfs, where fsync is free"):
        require_durable(folder / "data", {Path("/"): "ext4", folder: "tmpfs"})


async def test_another_tree_is_compared_by_its_own_sources_and_the_adapters_of_this_checkout(tmp_path: Path) -> None:
    (measurement,) = (each for each in MEASUREMENTS if each.name == "drain web, SQLite")
    stores = Stores(None, None, tmp_path)
    same, other = tmp_path / "same", tmp_path / "other"
    same.mkdir()
    (same / "src").symlink_to(REPOSITORY / "src")
    (other / "src" / "euterpe").mkdir(parents=True)
    (other / "src" / "euterpe" / "__init__.py").write_text("raise ImportError('the other tree was imported')")

    assert (await measurement.run(same, stores, 0.001))["us a job"] > 0
    with pytest.raises(PeerFailed, match="the other tree was imported"):
        await measurement.run(other, stores, 0.001)
