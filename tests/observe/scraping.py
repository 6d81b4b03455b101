"""Reading a page of metrics as a scraper does."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families


def samples_of(page: str) -> dict[str, float]:
    """`name{label="value"}` -> number."""
    found = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = ",".join(f'{key}="{value}"' for key, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def moved_counters(page: str) -> dict[str, float]:
    """The counters that are not 0."""
    return {
        name: value for name, value in samples_of(page).items() if value and name.partition("{")[0].endswith("_total")
    }
