"""The page on observability says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from euterpe.observe.logs import ALLOWED_KEYS
from euterpe.observe.metrics import BUCKETS_S, DELIVERY_OUTCOMES, REASONS, REFRESH_OUTCOMES
from tests.observe.test_metrics import CONTRACT

PAGE = (Path(__file__).parents[2] / "docs" / "observability.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The cells of the table that starts with this heading."""
    table = PAGE.partition(f"| {heading} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_the_page_lists_the_allowed_log_keys_and_no_others() -> None:
    assert {key for row in rows("key") for key in re.findall(r"`(\w+)`", row[0])} == ALLOWED_KEYS


def test_the_page_lists_the_metrics_with_their_types_and_labels() -> None:
    told = {row[0].strip("`"): (row[1], set(re.findall(r"`(\w+)`", row[2]))) for row in rows("metric")}
    assert told == CONTRACT


def test_the_page_tells_the_values_of_every_enumerated_label() -> None:
    told = {row[0].strip("`"): row[3] for row in rows("metric")}
    assert all(reason in told["jobs_failed_total"] for reason in REASONS)
    assert all(outcome in told["outbox_delivery_attempts_total"] for outcome in DELIVERY_OUTCOMES)
    assert all(outcome in told["credential_refresh_total"] for outcome in REFRESH_OUTCOMES)


def test_the_page_tells_the_buckets() -> None:
    told = re.search(r"Buckets of all histograms, in seconds: ([\d., ]+)\.", PAGE)
    assert told is not None
    assert tuple(float(bound) for bound in told[1].split(",")) == BUCKETS_S
