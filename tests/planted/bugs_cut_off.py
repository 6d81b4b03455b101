"""Bugs in submits inside the caller's transaction that are cancelled or interrupted."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_CUT = "tests/caller/test_cancelled_submits.py"

CUT_OFF_BUGS = (
    Bug(
        "a_cancel_leaves_the_savepoint_as_it_is",
        (
            Edit(
                "Joined.calls",
                "            raise  # Nobody drives us any more.\n        except BaseException as error:",
                "            raise  # Nobody drives us any more.\n        except Exception as error:",
            ),
        ),
        f"{_CUT}::test_a_submit_cancelled_at_any_point_is_there_whole_or_not_at_all[asyncpg-at once]",
        "",
    ),
    Bug(
        "a_cancel_cuts_off_the_release_of_the_savepoint",
        (Edit("drive", "await _whole(fetch(call), interruption)", "await fetch(call)"),),
        f"{_CUT}::test_a_submit_cancelled_at_any_point_is_there_whole_or_not_at_all[psycopg-async-with the answer]",
        "the caller's transaction could have gone on",
    ),
    Bug(
        "what_cannot_be_undone_is_committed_in_silence",
        (
            Edit(
                "Joined._make_sure",
                "                self.break_connection()\n            raise error from lost",
                "                pass\n            raise error from lost",
            ),
        ),
        f"{_CUT}::test_an_interrupt_at_any_call_leaves_nothing_or_the_commit_says_so[psycopg-after]",
        "in silence",
    ),
    Bug(
        "a_key_without_its_job_is_taken_for_ever",
        (Edit("insert_key.sql", " OR k.response IS NULL)", ")"),),
        "tests/conformance/test_idempotency.py"
        "::test_a_key_whose_submit_was_cut_off_before_its_job_was_stored_is_free[sqlite]",
        "",
    ),
)
