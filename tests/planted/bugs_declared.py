"""Bugs in what a job type's declaration means for submissions over HTTP."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

OVER_HTTP = "tests/cli/test_declared_over_http.py"

DECLARED_BUGS = (
    Bug(
        "the_server_forgets_the_types_of_its_app",
        (Edit("ApiPart._app", "job_types=core.definitions", "job_types={}"),),
        f"{OVER_HTTP}::test_what_a_type_declares_applies_to_jobs_batches_and_children",
        "assert {'queue': 'de",
    ),
    Bug(
        "arguments_of_a_known_type_are_not_checked_over_http",
        (
            Edit(
                "submissions.py:submission_of",
                "        if declared is not None:",
                "        if declared is None and types is None:",
            ),
        ),
        f"{OVER_HTTP}::test_arguments_that_the_type_does_not_take_are_refused_with_a_pointer",
        "KeyError",
    ),
)
