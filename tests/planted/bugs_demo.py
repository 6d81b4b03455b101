"""Bugs in the demo: proofs that would hold whatever happened."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_FACTS = "tests/cli/test_demo_transcoding_proofs.py::test_one_fact_that_is_wrong_fails_its_proof"

DEMO_BUGS = (
    Bug(
        "the_demo_finds_no_secret_because_it_looks_nowhere",
        (
            Edit(
                "secrets_found",
                "found += [path.name for secret in secrets if secret in content]",
                "pass",
            ),
        ),
        _FACTS,
        "AssertionError",
    ),
    Bug(
        "the_demo_believes_in_a_refresh_that_advanced_nothing",
        (Edit("refused_credentials_were_refreshed", '\n        and status["credential_version"] == 3,', ","),),
        _FACTS,
        "AssertionError",
    ),
)
