"""Bugs in what a user hangs around jobs, and in how results flow between them."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

HOOKS = "tests/queue/test_hooks.py"

REPLAYING = "tests/conformance/test_replaying.py"

BATCHES = "tests/queue/test_batches.py"

HOOK_BUGS = (
    Bug(
        "what_a_middleware_changed_is_stored_as_it_was",
        (Edit("_with_submissions", "drafts=drafts, kind=None)", "drafts=drafts)"),),
        "tests/queue/test_batches.py::test_a_middleware_may_change_one_job_of_a_batch",
        "== [{}, {}, {",
    ),
    Bug(
        "a_batch_is_all_of_the_kind_of_its_first_job",
        (
            Edit(
                "payloads_of_uniform",
                "            or call._definition is not definition\n",
                "",
            ),
        ),
        f"{BATCHES}::test_jobs_of_one_batch_may_differ_in_one_thing_alone",
        "('print', 'NORMAL')",
    ),
    Bug(
        "a_batch_has_the_options_of_its_first_job",
        (
            Edit(
                "payloads_of_uniform",
                "            or (call._options is not options and call._options != options)\n",
                "",
            ),
        ),
        f"{BATCHES}::test_jobs_of_one_batch_may_differ_in_one_thing_alone",
        "('mail', 'HIGH')",
    ),
    Bug(
        "a_job_that_does_not_fit_this_worker_is_charged",
        (
            Edit(
                "_left_to_others",
                "        delay_us=int(delay_us),\n        refund=1,\n",
                "        delay_us=int(delay_us),\n",
            ),
        ),
        "tests/conformance/test_unfit_arguments.py::test_only_its_lifetime_ends_a_job_that_fits_nobody[sqlite]",
        "AssertionError",
    ),
    Bug(
        "a_replayed_dependent_runs_before_its_dependency",
        (
            Edit(
                "_drafts",
                "            replay_of(job), depends_on=needed,",
                "            replay_of(job), depends_on=(),",
            ),
        ),
        f"{REPLAYING}::test_a_dependent_never_runs_before_its_dependency_in_whatever_order_they_are_replayed[sqlite]",
        ("AssertionError", "InvalidInput"),
    ),
    Bug(
        "middleware_that_forgets_the_handler_completes_the_job",
        (
            Edit(
                "handling/hooks.py:_step",
                "    if not was_called:\n",
                "    if not was_called and not value:\n        return value\n    if not was_called:\n",
            ),
        ),
        f"{HOOKS}::test_hostile_middleware[never_calls-dead_letter-without awaiting call_next(), so the handler did not run]",
        "AssertionError",
    ),
    Bug(
        "a_submit_whose_error_middleware_swallowed_looks_stored",
        (
            Edit(
                "_InnermostCall.answer",
                "        if self._error is not None:\n            raise self._error\n",
                "",
            ),
        ),
        f"{HOOKS}::test_submit_middleware_that_refuses_forgets_or_swallows_stores_nothing_in_silence",
        "IndexError",
    ),
    Bug(
        "results_are_handed_on_in_the_order_of_ids",
        (
            Edit(
                "_insert_edges",
                "(job.draft.id, d, place if place < said else None) for place, d in enumerate(job.edges)",
                "(job.draft.id, d, place if place < said else None) for place, d in enumerate(job.edges[::-1])",
            ),
        ),
        "tests/conformance/test_results_flow.py::test_a_claim_has_the_results_in_place_of_the_references[sqlite]",
        "AssertionError",
    ),
    Bug(
        "a_result_that_is_gone_is_handed_on_as_null",
        (
            Edit(
                "resolved",
                "            raise LookupError(place)\n",
                "            return b'null'\n",
            ),
        ),
        "tests/conformance/test_results_flow.py::test_a_result_that_retention_removed_ends_the_job_and_says_which[sqlite]",
        "AssertionError",
    ),
)
