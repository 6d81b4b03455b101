"""Bugs in what a user holds: the worker, the handle, and the job as a document."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_WORKER = "tests/queue/test_held_worker.py"
_DOCUMENTS = "tests/queue/test_documents.py"

SURFACE_BUGS = (
    Bug(
        "a_second_order_to_stop_cuts_running_jobs_off",
        (Edit("queue/worker.py", "elif not self._controls.is_stopping():", "else:"),),
        f"{_WORKER}::test_stop_lets_running_jobs_finish_and_takes_no_others[sqlite]",
        "AssertionError",
    ),
    Bug(
        "open_counts_every_call_of_a_notebook",
        (Edit("queue/queue.py", "        if not self._opened_by_hand:\n", "        if True:\n"),),
        f"{_DOCUMENTS}::test_a_notebook_opens_and_closes_a_queue_as_often_as_it_likes[sqlite]",
        "DID NOT RAISE",
    ),
    Bug(
        "a_spoilt_payload_hides_its_job",
        (
            Edit(
                "queue/job.py",
                "    except (msgspec.DecodeError, UnicodeError):\n        return stored",
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
                "queue/queue.py",
                "    # --- life ---",
                "    @property\n    def store(self) -> object:\n        return self._core.store\n\n    # --- life ---",
            ),
        ),
        "tests/queue/test_surface.py::test_a_queue_shows_what_a_user_needs_and_nothing_of_its_engine_room",
        "AssertionError",
    ),
)
