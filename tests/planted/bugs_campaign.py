"""A bug that the fault campaign must find."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

CAMPAIGN_BUGS = (
    Bug(
        "one_more_than_the_limit_runs",
        (Edit("store/claiming.py", "running[key] > limit:", "running[key] > limit + 1:"),),
        "tests/campaign/test_campaign.py::test_a_short_campaign_breaks_no_promise[sqlite]",
        "BROKEN limits held",
    ),
)
