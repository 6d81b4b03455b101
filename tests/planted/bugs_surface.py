"""Bugs in what a user holds: the worker, the handle, and the job as a document."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_WORKER = "tests/queue/test_held_worker.py"
_DOCUMENTS = "tests/queue/test_documents.py"

SURFACE_BUGS = (
    Bug(
        "a_number_that_json_does_not_have_becomes_null",
        (Edit("_check_finite", "if not math.isfinite(item):", "if item > item:"),),
        "tests/queue/test_argument_types.py::test_a_result_that_json_does_not_have_fails_the_job[sqlite]",
        "AssertionError",
    ),
    Bug(
        "a_cron_that_shares_its_job_type_is_taken_for_the_other",
        (Edit("cron_named", "    if len(of_type) > 1:\n", "    if len(of_type) > 2:\n"),),
        "tests/queue/test_crons.py::test_a_cron_can_be_named_by_its_job_type_while_that_has_only_one[sqlite]",
        "DID NOT RAISE",
    ),
    Bug(
        "a_second_order_to_stop_cuts_running_jobs_off",
        (Edit("Worker.stop", "elif not self._controls.is_stopping():", "else:"),),
        f"{_WORKER}::test_stop_lets_running_jobs_finish_and_takes_no_others[sqlite]",
        "AssertionError",
    ),
    Bug(
        "open_counts_every_call_of_a_notebook",
        (Edit("Queue.open", "        if not self._opened_by_hand:\n", "        if True:\n"),),
        f"{_DOCUMENTS}::test_a_notebook_opens_and_closes_a_queue_as_often_as_it_likes[sqlite]",
        "DID NOT RAISE",
    ),
    Bug(
        "a_spoilt_payload_hides_its_job",
        (
            Edit(
                "queue/job.py:_decoded",
                "    except (msgspec.DecodeError, UnicodeError, RecursionError):\n        return stored",
                "    except ImportError:\n        return stored",
            ),
        ),
        f"{_DOCUMENTS}::test_what_a_hand_has_spoilt_in_a_row_does_not_hide_the_job",
        "DecodeError",
    ),
    Bug(
        "the_store_is_a_public_attribute_again",
        (
            Edit(
                "Queue",
                "    # --- life ---",
                "    @property\n    def store(self) -> object:\n        return self._core.store\n\n    # --- life ---",
            ),
        ),
        "tests/queue/test_surface.py::test_a_queue_shows_what_a_user_needs_and_nothing_of_its_engine_room",
        "AssertionError",
    ),
    Bug(
        "who_submits_loads_the_worker_too",
        (
            Edit(
                "queue/worker.py",
                "from euterpe.worker.identity import",
                "import euterpe.worker.loop\nfrom euterpe.worker.identity import",
            ),
        ),
        "tests/packaging/test_import_cost.py::test_only_what_is_used_is_loaded[submitting a job]",
        "worker.loop",
    ),
)
