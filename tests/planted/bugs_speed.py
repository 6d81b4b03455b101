"""Bugs in what a worker claims ahead of its free slots."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_ORDER = (
    "tests/conformance/test_prefetching.py::test_the_front_of_the_line_comes_in_order_up_to_the_first_that_cannot_wait"
)
_CANNOT_WAIT = "tests/conformance/test_prefetching.py::test_what_cannot_wait_is_claimed_for_a_free_slot_only"
_LET_GO = (
    "tests/conformance/test_outbox_events.py::test_a_dependent_that_is_let_go_is_told_where_its_callback_hears_of_that"
)
_GIVEN_BACK = (
    "tests/conformance/test_prefetching.py::test_what_a_lost_worker_had_not_begun_is_given_back_with_its_attempt"
)
_OVER_HTTP = "tests/conformance/test_prefetching.py::test_workers_over_http_get_the_same_front_of_the_line"
_AHEAD = "tests/server/test_claiming_ahead.py"
_AT_EVERYBODY = f"{_AHEAD}::test_nothing_comes_ahead_that_cannot_wait_at_everybody_who_asks"
_FREE_SLOTS_FIRST = f"{_AHEAD}::test_who_has_a_free_slot_is_served_before_who_could_have_more_ahead"
_PRUNED = "tests/conformance/test_stale_writes.py::test_a_claim_of_a_pruned_job_ends_none_that_was_given_its_number"
_AS_STORED = "tests/conformance/test_claiming.py::test_a_claim_brings_a_job_as_it_is_stored_alone_and_among_others"
_NEIGHBOURS = "tests/conformance/test_claiming.py::test_a_claim_brings_neighbours_of_several_kinds_as_they_are_stored"
_BUFFER = "tests/worker/test_ready_buffer.py"
_LANES = "tests/worker_units/test_lanes.py"
_LOOP = "tests/worker_units/test_loop_commits.py"

SPEED_BUGS = (
    Bug(
        "a_completion_goes_by_a_number_that_is_given_again",
        (
            Edit(
                "complete_uniform.sql",
                " AND +j.id IN (SELECT value FROM json_each(:ids))",
                " AND :ids IS NOT NULL",
            ),
        ),
        f"{_PRUNED}[sqlite]",
        "assert not True",
    ),
    Bug(
        "a_claim_is_told_another_time_than_is_stored",
        (Edit("take.sql", "started_at = :picked_at", "started_at = :now"),),
        "tests/worker_units/test_sqlite_steps.py::test_a_claim_has_the_times_that_are_stored[0]",
        "assert JobRow(",
    ),
    Bug(
        "what_was_picked_and_not_taken_is_handed_out",
        (Edit("Picked.jobs", "self.fresh.rows(self.seqs)", "self.fresh.rows(str(list(range(1, 100))))"),),
        f"{_ORDER}[sqlite-plain]",
        "assert [",
    ),
    Bug(
        "a_job_is_a_copy_of_a_neighbour_of_another_kind",
        (Edit("Picked.jobs", "if kind is last or kind == last:", "if last is not None:"),),
        f"{_NEIGHBOURS}[sqlite]",
        "assert [JobRow(",
    ),
    Bug(
        "a_claim_in_steps_forgets_the_events_of_its_jobs",
        (
            Edit(
                "Picked.is_plain",
                "return self.fresh is not None and self.is_quiet",
                "return self.fresh is not None",
            ),
        ),
        "tests/conformance/test_turns.py::test_a_turn_that_takes_jobs_with_callbacks_tells_of_them[sqlite]",
        "assert [] ==",
    ),
    Bug(
        "sqlite_plans_every_claim_anew",
        (
            Edit(
                "sqlite/engine.py:connect",
                "apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1",
                "apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 0",
            ),
        ),
        "tests/worker_units/test_sqlite_steps.py::test_no_statement_of_an_exchange_is_planned_anew",
        "== []",
    ),
    Bug(
        "what_a_claim_brings_lacks_what_was_said_of_a_job",
        (Edit("fresh.sql", "tags, correlation_id", "correlation_id"),),
        f"{_AS_STORED}[sqlite-tags]",
        "assert JobRow(",
    ),
    Bug(
        "what_is_claimed_ahead_overtakes_a_job_that_cannot_wait",
        (
            Edit(
                "postgres/front.sql",
                "WHERE NOT a.can_wait AND a.before",
                "WHERE false AND a.before",
            ),
        ),
        f"{_ORDER}[postgres-plain]",
        ("what is behind it does not overtake it", "assert ["),
    ),
    Bug(
        "what_is_claimed_ahead_over_http_overtakes_a_job_that_cannot_wait",
        (
            Edit(
                "postgres/front.sql",
                "WHERE NOT a.can_wait AND a.before",
                "WHERE false AND a.before",
            ),
        ),
        f"{_OVER_HTTP}[postgres-plain]",
        "assert [(",
    ),
    Bug(
        "a_job_comes_ahead_that_cannot_wait_at_one_of_those_who_ask",
        (Edit("_Group._places", "frozenset.intersection(", "frozenset().union("),),
        f"{_AT_EVERYBODY}[other0]",
        "assert [[",
    ),
    Bug(
        "who_has_a_free_slot_waits_while_another_gets_jobs_ahead",
        (Edit("ClaimPlaces.all", "return self.at_once + self.ahead", "return self.ahead + self.at_once"),),
        _FREE_SLOTS_FIRST,
        "assert [[",
    ),
    Bug(
        "a_job_is_claimed_ahead_again_and_again",
        (Edit("pick.sql", "j.claim_version = 0 AND", "j.claim_version >= 0 AND"),),
        f"{_CANNOT_WAIT}[sqlite-released]",
        "== []",
    ),
    Bug(
        "a_claim_ahead_takes_more_of_a_key_than_its_limit_on_sqlite",
        (
            Edit("_first_over", "front.running + begun >= job.limit", "front.running + begun > job.limit"),
            Edit("line.sql", "(l.running + 1 >= n.concurrency_limit) IS NOT TRUE", "true"),
        ),
        "tests/conformance/test_prefetching.py::test_jobs_with_keys_come_ahead_within_their_limits_and_hold_up_nobody_behind_them[sqlite]",
        "AssertionError",
    ),
    Bug(
        "a_job_begins_after_its_submitter_has_gone_on",
        (
            Edit(
                "LoopCommits.take",
                "                self._run(last=ticket)\n",
                "                pass\n",
            ),
        ),
        f"{_LOOP}::test_who_takes_part_is_answered_before_who_came_first",
        "assert [",
    ),
    Bug(
        "a_claim_overtakes_the_report_that_sets_its_places_free",
        (
            Edit(
                "LoopCommits.take",
                "            self._handed = ticket\n            return False\n",
                "            return False\n",
            ),
        ),
        f"{_LOOP}::test_a_small_one_does_not_overtake_what_the_writer_thread_has_not_begun",
        "the thread has taken the report",
    ),
    Bug(
        "the_kernel_is_not_asked_for_writes_again",
        (Edit("DataWatch._wake", "hear(writes=True)", "hear(writes=False)"),),
        "tests/worker/test_datawatch.py::test_the_kernel_is_asked_for_writes_again_after_each_wake",
        "the kernel tells of the write",
    ),
    Bug(
        "a_turn_of_keys_takes_more_than_their_limits_on_sqlite",
        (
            Edit("_first_over", "front.running + begun >= job.limit", "front.running + begun > job.limit"),
            Edit("line.sql", "(l.running + 1 >= n.concurrency_limit) IS NOT TRUE", "true"),
        ),
        "tests/conformance/test_turns.py"
        "::test_a_turn_holds_keys_to_their_limit_and_takes_what_stands_behind_them[sqlite]",
        "AssertionError",
    ),
    Bug(
        "a_job_that_comes_along_has_the_key_of_nobody",
        (Edit("_with_key", "len(job.requester_id) + 1 :", "len(job.requester_id) :"),),
        f"{_NEIGHBOURS}[sqlite]",
        "assert [JobRow(",
    ),
    Bug(
        "jobs_that_end_in_a_turn_of_keys_free_nobody",
        (Edit("complete_linked", "    if completions.freed:", "    if False:"),),
        "tests/conformance/test_concurrency_keys.py"
        "::test_a_turn_that_ends_jobs_of_many_keys_frees_as_many_places_of_each[sqlite]",
        "assert Counter(",
    ),
    Bug(
        "a_stale_completion_in_a_turn_of_keys_counts",
        (
            Edit(
                "complete_linked",
                "    if not (yield from complete_simple(completions.plain)):\n        raise RowsSayMore\n    if completions",
                "    yield from complete_simple(completions.plain)\n    if completions",
            ),
        ),
        "tests/conformance/test_turns.py::test_a_stale_completion_in_a_turn_of_keys_frees_no_place[sqlite]",
        "assert [True",
    ),
    Bug(
        "a_job_whose_key_has_a_rate_spends_its_token_before_it_begins_on_sqlite",
        (Edit("pick.sql", " AND l.tokens IS NULL AS can_wait", " AS can_wait"),),
        f"{_CANNOT_WAIT}[sqlite-rated]",
        "== []",
    ),
    Bug(
        "a_job_whose_key_has_a_rate_spends_its_token_before_it_begins",
        (Edit("key_admitted.sql", "a.can_wait AND a.tokens IS NULL", "a.can_wait"),),
        f"{_CANNOT_WAIT}[postgres-rated]",
        "== []",
    ),
    Bug(
        "a_dependent_is_released_while_it_still_waits_for_another_job",
        (Edit("_resolve_dependents", "if pending == len(ends[job_id])", "if pending >= len(ends[job_id])"),),
        "tests/conformance/test_dependencies.py::test_a_job_waits_until_all_it_depends_on_is_completed[sqlite]",
        "AssertionError",
    ),
    Bug(
        "a_dependent_is_released_by_a_job_that_failed",
        (Edit("_resolve_dependents", " and completed.issuperset(ends[job_id])", ""),),
        "tests/conformance/test_dependencies.py::test_a_diamond_that_fails_at_the_top_ends_its_last_job_once[postgres]",
        "AssertionError",
    ),
    Bug(
        "the_release_of_a_dependent_is_not_told",
        (Edit("_resolve_dependents", " and job_id not in with_callbacks", ""),),
        f"{_LET_GO}[postgres]",
        "media.queued",
    ),
    Bug(
        "what_a_lost_worker_had_begun_is_refunded",
        (Edit("release_unbegun", " if (job.id, job.claim_version) not in begun", ""),),
        f"{_GIVEN_BACK}[sqlite]",
        "assert 2 == 1",
    ),
    Bug(
        "what_waits_begins_in_the_order_of_its_claims",
        (Edit("ReadyBuffer.add", "self.line.sort(key=_PRIORITY, reverse=True)", "pass"),),
        "tests/worker_units/test_pace.py::test_the_most_urgent_is_next_and_the_oldest_among_those",
        "assert 3 == 9",
    ),
    Bug(
        "small_exchanges_of_two_lanes_are_not_joined",
        (Edit("WorkerLoop._waits_for_other_lane", "return len(since) >= self._plan.lanes", "return False"),),
        f"{_LANES}::test_where_two_would_be_small_what_ended_waits_for_the_exchange_under_way",
        "it waits for the other lane",
    ),
    Bug(
        "a_lane_asks_for_more_before_what_it_brought_has_begun",
        (
            Edit(
                "WorkerLoop._let_begin_what_waits",
                "slots = min(SLICE, -(-self._settings.concurrency // LANES))",
                "slots = SLICE",
            ),
        ),
        f"{_LANES}::test_a_lane_settles_all_that_it_brought_before_it_asks_for_more[24]",
        "a lane left jobs to the other",
    ),
    Bug(
        "an_exchange_that_is_held_up_holds_up_the_other_lane",
        (Edit("WorkerLoop._waits_for_other_lane", " or self._loop.time() - since[0] >= OTHER_LANE_S", ""),),
        f"{_LANES}::test_an_exchange_that_is_held_up_holds_up_no_other",
        "in vain: an exchange",
    ),
    Bug(
        "a_handler_inherits_the_context_of_the_one_before",
        (
            Edit(
                "RunningAttempts._refill_soon",
                "call_soon(self._refill, context=self._context)",
                "call_soon(self._refill)",
            ),
        ),
        f"{_BUFFER}::test_what_begins_when_another_ends_has_a_task_and_a_context_of_its_own[sqlite]",
        "== [None, None, None, None]",
    ),
    Bug(
        "the_keeper_of_a_killed_worker_keeps_what_had_not_begun",
        (
            Edit(
                "keep_until_gone",
                "                await give_back_unbegun(config, table)\n",
                "                pass\n",
            ),
        ),
        f"{_BUFFER}::test_a_job_that_kills_its_worker_pays_for_each_attempt_and_those_that_wait_behind_it_for_none[sqlite]",
        "waited",
    ),
    Bug(
        "the_keeper_of_a_killed_worker_tries_to_give_back_only_once",
        (
            Edit(
                "_release_unbegun",
                "        except EuterpeError:\n            await asyncio.sleep(AGAIN_S)\n",
                "        finally:\n            pass\n",
            ),
        ),
        f"{_BUFFER}::test_the_keeper_of_a_killed_worker_tries_again_when_its_connection_is_cut",
        "waited",
    ),
    Bug(
        "what_waits_is_kept_at_the_order_to_stop",
        (
            Edit(
                "WorkerLoop.stop",
                "self._attempts.release_ready()\n            self._grace",
                "self._grace",
            ),
        ),
        f"{_BUFFER}::test_what_waits_goes_back_uncharged_at_the_order_to_stop[sqlite]",
        ("waited", "assert ["),
    ),
    Bug(
        "every_job_of_a_turn_gets_the_result_of_the_first",
        (Edit("_settling", "results.count(results[0]) == len(results)", "True"),),
        "tests/conformance/test_turns.py::test_every_job_of_a_turn_keeps_its_own_result[postgres]",
        "assert [b'",
    ),
    Bug(
        "completions_that_are_alike_forget_the_version",
        (
            Edit(
                "complete_uniform.sql",
                "AND j.claim_version = :claim_version AND",
                "AND",
            ),
        ),
        "tests/conformance/test_turns.py::test_a_stale_completion_bounces_that_looks_like_the_others[sqlite]",
        "[True, True] == [False, True]",
    ),
    Bug(
        "the_loop_waits_for_another_processs_lock",
        (Edit("ApswSession.begin_at_once", "self._begin(0.0)", "self._begin(1.0)"),),
        f"{_LOOP}::test_the_loop_does_not_wait_for_another_processs_lock",
        "who waits for the lock",
    ),
    Bug(
        "the_loop_goes_on_to_commit_on_a_slow_disk",
        (Edit("LoopCommits.take", "time.monotonic() < self._slow_until", "False"),),
        f"{_LOOP}::test_a_slow_disk_is_left_to_the_writer_thread_for_a_while",
        "one that was slow",
    ),
    Bug(
        "the_loop_never_leaves_a_checkpoint_to_the_writer",
        (
            Edit(
                "ApswSession.begin_at_once",
                "self._written() - self._written_before >= SMALL_CHECKPOINT_PAGES",
                "False",
            ),
        ),
        f"{_LOOP}::test_a_checkpoint_is_the_writer_threads",
        "when so many pages wait for a checkpoint",
    ),
    Bug(
        "the_writer_thread_waits_long_for_its_first_step",
        (Edit("GroupCommitEngine.write", "with short_switch_interval:  # The", "with suppress():  # The"),),
        "tests/worker_units/test_handover.py::test_it_is_short_already_while_the_writer_thread_is_waited_for",
        "the thread waits for the loop",
    ),
)
