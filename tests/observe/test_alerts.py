"""The alerts that the page recommends are a file that Prometheus takes, on metrics that exist."""

from __future__ import annotations

import re
from pathlib import Path

from ruamel.yaml import YAML

from euterpe.observe.metrics import Metrics
from tests.observe.promtool import complaints_about_rules

DOCS = Path(__file__).parents[2] / "docs"
ALERTS = DOCS / "alerts.yml"


def expressions() -> list[str]:
    groups = YAML(typ="safe").load(ALERTS.read_text())["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


def test_promtool_takes_the_alerts() -> None:
    assert complaints_about_rules(ALERTS) == ""


def test_the_page_explains_every_alert_and_no_other() -> None:
    table = (DOCS / "observability.md").read_text().partition("Worth an alert")[2].partition("\n\n")[2]
    told = re.findall(r"^\| `([^`]+)`", table.partition("\n\n")[0], re.MULTILINE)
    assert told == expressions()


def test_every_alert_looks_at_a_metric_that_exists() -> None:
    page = Metrics().render()[1].decode()
    shown = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")}
    for expression in expressions():
        assert set(re.findall(r"[a-z]+(?:_[a-z]+)+", expression)) <= shown, expression
