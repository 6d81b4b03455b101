"""From the command line's choice to the list of measurements, and the stores that they need."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from bench.harness.catalogue import StoreKind, Subject
from bench.harness.own_scenarios import OWN_SCENARIOS
from bench.harness.rounds import Figures, Measurement
from bench.harness.scenarios import SCENARIOS, Scenario, Sizes
from bench.harness.stores import Stores
from bench.raw.probe import Probe

RAW = "raw"
ALL_SCENARIOS = (*SCENARIOS, *OWN_SCENARIOS)
SCENARIO_NAMES = (*(scenario.name for scenario in ALL_SCENARIOS), RAW)


class UnknownName(Exception):
    """A peer or scenario was asked for that does not exist."""


@dataclass(frozen=True, slots=True)
class Choice:
    subjects: Sequence[Subject]
    scenarios: Sequence[Scenario]
    probes: Sequence[Probe]

    @property
    def stores(self) -> set[StoreKind]:
        wanted: set[StoreKind] = {subject.store for subject in self.subjects}
        return wanted | {probe.store for probe in self.probes if probe.store != "disk"}


def require_known(option: str, wanted: Collection[str], known: Collection[str]) -> None:
    if unknown := sorted(set(wanted) - set(known)):
        raise UnknownName(f"{option} {', '.join(unknown)} is unknown; there are {', '.join(known)}")


def choose(
    subjects: Sequence[Subject], probes: Sequence[Probe], peers: Collection[str], scenarios: Collection[str]
) -> Choice:
    """Empty `peers` or `scenarios` mean all of them."""
    require_known("--peer", peers, [subject.name for subject in subjects])
    require_known("--scenario", scenarios, SCENARIO_NAMES)
    picked = [scenario for scenario in ALL_SCENARIOS if not scenarios or scenario.name in scenarios]
    return Choice(
        subjects=[subject for subject in subjects if picked and (not peers or subject.name in peers)],
        scenarios=picked,
        probes=probes if not scenarios or RAW in scenarios else (),
    )


def with_settings(subjects: Sequence[Subject], changes: Collection[str]) -> list[Subject]:
    """`changes` are of the form PEER.KEY=VALUE; the value takes the type of the one that it replaces."""
    changed = {subject.name: subject for subject in subjects}
    for change in changes:
        target, _, value = change.partition("=")
        name, _, key = target.rpartition(".")
        if name not in changed or key not in changed[name].settings:
            raise UnknownName(f"--set {change!r} names no setting of a peer; use PEER.KEY=VALUE")
        settings = changed[name].settings
        changed[name] = replace(changed[name], settings={**settings, key: type(settings[key])(value)})
    return list(changed.values())


async def measure_probe(probe: Probe, stores: Stores, sizes: Sizes) -> Figures:
    place = str(stores.fresh_folder()) if probe.store == "disk" else await stores.fresh(probe.store)
    return {"raw": await probe.measure(place, sizes.count(probe.operations))}


def make_plan(choice: Choice, stores: Stores, sizes: Sizes) -> list[Measurement]:
    raw = [
        Measurement(probe.name, RAW, functools.partial(measure_probe, probe, stores, sizes)) for probe in choice.probes
    ]
    return raw + [
        Measurement(subject.name, scenario.name, functools.partial(scenario.measure, subject, stores, sizes))
        for scenario in choice.scenarios
        for subject in choice.subjects
        if scenario.fits(subject) and (subject.scenarios is None or scenario.name in subject.scenarios)
    ]
