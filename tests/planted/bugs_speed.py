"""Bugs in what a worker claims ahead of its free slots."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_ORDER = (
    "tests/conformance/test_prefetching.py::test_the_front_of_the_line_comes_in_order_up_to_the_first_that_cannot_wait"
)
_CANNOT_WAIT = "tests/conformance/test_prefetching.py::test_what_cannot_wait_is_claimed_for_a_free_slot_only"
_GIVEN_BACK = (
    "tests/conformance/test_prefetching.py::test_what_a_lost_worker_had_not_begun_is_given_back_with_its_attempt"
)
_BUFFER = "tests/worker/test_ready_buffer.py"
_LOOP = "tests/worker_units/test_loop_commits.py"

SPEED_BUGS = (
    Bug(
        "what_is_claimed_ahead_overtakes_a_job_that_cannot_wait",
        (
            Edit(
                "stores/sql/queries/postgres/exchange.sql",
                "place > :limit AND NOT can_wait",
                "place < 0 AND NOT can_wait",
            ),
        ),
        f"{_ORDER}[postgres-plain]",
        ("what is behind it does not overtake it", "assert ["),
    ),
    Bug(
        "a_job_is_claimed_ahead_again_and_again",
        (Edit("stores/sql/queries/prefetchable.sql", "claim_version = 0", "claim_version >= 0"),),
        f"{_CANNOT_WAIT}[sqlite-released]",
        "== []",
    ),
    Bug(
        "what_a_lost_worker_had_begun_is_refunded",
        (Edit("stores/sql/maintenance/sweep.py", " if (job.id, job.claim_version) not in begun", ""),),
        f"{_GIVEN_BACK}[sqlite]",
        "assert 2 == 1",
    ),
    Bug(
        "what_waits_begins_in_the_order_of_its_claims",
        (Edit("worker/claiming/prefetch.py", "heappush(self.line, ready)", "self.line.append(ready)"),),
        "tests/worker_units/test_pace.py::test_the_most_urgent_is_next_and_the_oldest_among_those",
        "assert 5 == 9",
    ),
    Bug(
        "what_waits_is_kept_at_the_order_to_stop",
        (
            Edit(
                "worker/loop.py",
                "self._attempts.release_ready()\n            self._grace",
                "self._grace",
            ),
        ),
        f"{_BUFFER}::test_what_waits_goes_back_uncharged_at_the_order_to_stop[sqlite]",
        ("waited", "assert ["),
    ),
    Bug(
        "every_job_of_a_turn_gets_the_result_of_the_first",
        (Edit("stores/sql/jobs/exchange.py", "results.count(results[0]) == len(results)", "True"),),
        "tests/conformance/test_turns.py::test_every_job_of_a_turn_keeps_its_own_result[postgres]",
        "assert [b'",
    ),
    Bug(
        "completions_that_are_alike_forget_the_version",
        (Edit("stores/sql/queries/sqlite/complete_alike.sql", "AND j.claim_version = :claim_version AND", "AND"),),
        "tests/conformance/test_turns.py::test_a_stale_completion_bounces_that_looks_like_the_others[sqlite]",
        "[True, True] == [False, True]",
    ),
    Bug(
        "the_loop_waits_for_another_processs_lock",
        (Edit("stores/sql/sqlite/engine.py", "self._begin(0.0)", "self._begin(1.0)"),),
        f"{_LOOP}::test_the_loop_does_not_wait_for_another_processs_lock",
        "who waits for the lock",
    ),
    Bug(
        "the_loop_goes_on_to_commit_on_a_slow_disk",
        (Edit("stores/sql/sqlite/loop_commits.py", "time.monotonic() < self._slow_until", "False"),),
        f"{_LOOP}::test_a_slow_disk_is_left_to_the_writer_thread_for_a_while",
        "one that was slow",
    ),
    Bug(
        "the_loop_never_leaves_a_checkpoint_to_the_writer",
        (Edit("stores/sql/sqlite/engine.py", "self._written() - self._written_before >= CHECKPOINT_PAGES", "False"),),
        f"{_LOOP}::test_a_checkpoint_is_the_writer_threads",
        "when so many pages wait for a checkpoint",
    ),
)
