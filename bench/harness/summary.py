"""All rounds of a run, gathered by subject and metric: what the table and the chart are drawn from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bench.harness.rounds import Outcome
from bench.harness.statistics import Spread, ratio, spread


@dataclass(frozen=True, slots=True)
class Summary:
    figures: dict[str, dict[str, dict[int, float]]]
    """subject -> metric -> round -> value"""
    failures: dict[str, list[str]]

    def spread(self, subject: str, metric: str) -> Spread | None:
        by_round = self.figures.get(subject, {}).get(metric)
        return spread(list(by_round.values())) if by_round else None

    def ratio(self, subject: str, to: str, metric: str) -> Spread | None:
        ours, theirs = (self.figures.get(name, {}).get(metric, {}) for name in (subject, to))
        return ratio(ours, theirs) if ours.keys() & theirs.keys() else None


def summarise(outcomes: Iterable[Outcome]) -> Summary:
    figures: dict[str, dict[str, dict[int, float]]] = {}
    failures: dict[str, list[str]] = {}
    for outcome in outcomes:
        for metric, value in outcome.figures.items():
            figures.setdefault(outcome.subject, {}).setdefault(metric, {})[outcome.round] = value
        if outcome.error is not None:
            failures.setdefault(outcome.subject, []).append(f"{outcome.scenario}: {outcome.error}")
    return Summary(figures, failures)
