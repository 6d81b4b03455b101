"""Bugs around Redis lists and the settle: ids of other programs, pushes that nobody hears of, keys that come back."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

FOREIGN = "tests/redis_lists/test_foreign_jobs.py"

UNIQUE = "tests/conformance/test_unique.py"

LARGE = "tests/worker/test_database_away.py::test_large_results_are_written_over_a_network_that_carries_a_few_at_a_time"

ORDER = "tests/conformance/test_order_of_claims.py"

LIST_BUGS = (
    Bug(
        "a_claim_of_several_takes_the_youngest_of_a_priority",
        (
            Edit(
                "turn.lua",
                "redis.pcall('RPOP', source, asked)",
                "redis.pcall('LPOP', source, asked)",
            ),
        ),
        f"{ORDER}::test_claimers_side_by_side_take_jobs_by_priority_and_age[redis lists-bulk]",
        ("waited", "a claim ans"),
    ),
    Bug(
        "an_answer_that_a_lost_connection_owes_is_read_by_nobody",
        (Edit("_Socket.close", "                future.exception()  # Read once", "                # Read once"),),
        "tests/redis_lists/test_pipelined.py::test_a_lost_connection_leaves_no_error_that_nobody_read",
        "never retrieved",
    ),
    Bug(
        "a_claim_that_meets_only_locked_keys_says_that_nothing_waits",
        (
            Edit(
                "taken_rows.sql",
                "OR (SELECT COUNT(*) FROM held) < (SELECT COUNT(*) FROM front) THEN 1",
                "THEN 1",
            ),
        ),
        "tests/faults/test_concurrency_keys.py::test_a_turn_that_meets_only_locked_keys_asks_again",
        ("assert []", "nobody paused"),
    ),
    Bug(
        "a_lock_timeout_drops_claims_that_are_committed",
        (
            Edit(
                "PostgresExchange._claim_rest",
                "                if not claims and not is_told:\n                    raise\n",
                "                raise\n",
            ),
            Edit(
                "PostgresExchange.run",
                "        states, claims = await self._run(batch, request)\n",
                "        try:\n            states, claims = await self._run(batch, request)\n        except LockTimeout:\n            states, claims = await self._write(batch.settlements, request)\n",
            ),
        ),
        "tests/faults/test_lock_timeouts.py::test_claims_that_are_committed_are_handed_out_whatever_times_out_later[2]",
        "a claimed job is in nobody's hands",
    ),
    Bug(
        "results_of_any_size_go_in_one_settle",
        (Edit("BatchBytes.first_of", "if left < 0 and count:", "if left < 0 and count > 999:"),),
        f"{LARGE}[3000000]",
        "TimeoutError",
    ),
    Bug(
        "a_settle_that_did_not_arrive_is_sent_again_as_large",
        (Edit("RunningAttempts.give_back_ended", "        self._batch_bytes.lost(ended)\n", ""),),
        f"{LARGE}[500000]",
        "TimeoutError",
    ),
    Bug(
        "an_older_job_of_a_key_is_retried_beside_a_newer_one",
        (Edit("end_superseded", "    if not superseded:", "    if superseded or not superseded:"),),
        f"{UNIQUE}::test_the_newer_job_of_a_key_waits_and_the_older_one_ends[sqlite-replace-retry]",
        "assert",
    ),
    Bug(
        "a_superseded_job_is_retried_once_its_key_is_forgotten",
        (Edit("_is_superseded", "            return True\n", "            return False\n"),),
        f"{UNIQUE}::test_old_arguments_never_run_after_newer_ones[postgres-True]",
        "assert",
    ),
    Bug(
        "a_released_job_of_a_key_waits_beside_a_newer_one",
        (Edit("_WAITS_AGAIN", "(State.RETRYING, State.SCHEDULED)", "(State.RETRYING,)"),),
        f"{UNIQUE}::test_the_newer_job_of_a_key_waits_and_the_older_one_ends[postgres-waiting-release]",
        "assert",
    ),
    Bug(
        "a_superseded_job_strands_its_dependents",
        (Edit("end_superseded", "(*moved[row[0]][:_CLAIM_VERSION], *row[_CLAIM_VERSION:]) if", "row if"),),
        f"{UNIQUE}::test_dependents_and_neighbours_of_a_superseded_job_get_their_ends[sqlite]",
        "assert",
    ),
    Bug(
        "a_settle_reads_a_key_that_a_submit_is_just_taking",
        (
            Edit("unique_holder.sql", " {{skip_locked}}\n", "\n"),
            Edit("unique_holder.sql", "-- locks: skips", "-- locks: none"),
        ),
        f"{UNIQUE}::test_of_failures_and_submits_at_once_one_job_of_a_key_waits[postgres]",
        "'retrying': 1",
    ),
    Bug(
        "the_keeper_reads_a_short_id_with_its_padding",
        (Edit("LeaseTable.entries", 'job_id.rstrip(b"\\0").decode()', "job_id.decode()"),),
        f"{FOREIGN}::test_a_lease_is_renewed_whatever_the_length_of_the_id[5]",
        ("TimeoutError", "it ran once, under one claim"),
    ),
    Bug(
        "the_keeper_takes_a_job_with_a_short_id_for_unbegun",
        (Edit("LeaseTable.entries", 'job_id.rstrip(b"\\0").decode()', "job_id.decode()"),),
        f"{FOREIGN}::test_a_payload_that_kills_its_worker_runs_as_often_as_it_may",
        ("'/in/poison':", "TimeoutError"),
    ),
    Bug(
        "the_lease_table_cuts_a_long_id",
        (Edit("_SLOT", "<B7x256sqdq88s", "<B7x200sqdq88s"), Edit("_KEEP_UNTIL_AT", '<B7x256sq"', '<B7x200sq"')),
        "tests/worker_units/test_lease_table.py::test_the_keeper_reads_a_job_id_of_any_length",
        "assert",
    ),
    Bug(
        "an_id_that_the_lease_table_would_cut_is_taken",
        (Edit("common.lua", "if #id > ID_LIMIT then return nil, 'long_id' end", ""),),
        f"{FOREIGN}::test_an_id_over_the_limit_is_refused_aloud_and_nothing_is_lost",
        "assert",
    ),
    Bug(
        "retries_rise_only_in_json_without_spaces",
        (Edit("turn.lua", "'\"retries\"%s*:%s*[%w.+-]+'", "'\"retries\":[%w.+-]+'"),),
        f"{FOREIGN}::test_a_failure_raises_retries_however_the_entry_is_written[spaced]",
        "assert {'id': 'a'",
    ),
    Bug(
        "the_first_retries_of_an_entry_are_taken_for_the_jobs_own",
        (Edit("turn.lua", "if good and said.retries == tonumber(retries) then", "if good then"),),
        f"{FOREIGN}::test_a_failure_raises_retries_however_the_entry_is_written[in an object before]",
        "assert {'id': 'a'",
    ),
    Bug(
        "a_push_of_another_program_wakes_no_worker",
        (Edit("ListWatch._look_at", "await self._scripts.run(WAKE, *lists)", "pass"),),
        f"{FOREIGN}::test_what_another_program_pushes_starts_at_once_in_every_list",
        "TimeoutError",
    ),
    Bug(
        "a_watch_that_was_cut_off_believes_that_it_watches",
        (
            Edit(
                "ListWatch._on_change",
                "        if keys is None:\n            self._watched.clear()",
                "        if keys is None:\n            return",
            ),
        ),
        f"{FOREIGN}::test_what_is_pushed_while_nobody_watches_starts_when_a_worker_waits",
        "TimeoutError",
    ),
    Bug(
        "an_idle_worker_looks_at_its_lists_at_every_wait",
        (Edit("ListWatch._look_at", "        self._watched |= lists\n", ""),),
        f"{FOREIGN}::test_an_idle_worker_looks_once_and_then_only_at_changes",
        "assert",
    ),
)
