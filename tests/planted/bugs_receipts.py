"""Bugs in chunks of jobs that wait and receipts of claims (ADR 017)."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_QUERIES = "stores/sql/queries/postgres"
_CONVERSIONS = "stores/sql/postgres/conversions.py"
_CHUNKS = "tests/receipts/test_chunks.py"
_TOLD = "tests/receipts/test_told_ends.py"
_ONE_STATEMENT = "stores/sql/exchange/one_statement.py"
_RECEIPTS = "tests/receipts/test_receipts.py"
_PAIRS = (
    "tests/interleavings/test_receipts.py::test_any_two_programs_keep_plain_jobs_in_one_place_and_their_claims_apart"
)
_BEHIND_A_GAP = f"{_CHUNKS}::test_what_is_left_of_a_chunk_waits_for_one_that_stands_between_behind_a_gap"
_INTERLEAVED = f"{_CHUNKS}::test_chunks_of_submits_that_ran_beside_each_other_keep_their_order"
_MISSING = "tests/receipts/test_missing_rows.py"
_LISTS = "tests/receipts/test_lists.py"
_PLANS = "tests/plans/test_postgres_plans.py"
_OF_THE_STATE = "{{within}} AND w.state || '' = s.state"

RECEIPT_BUGS = (
    Bug(
        "a_receipt_that_could_not_be_deleted_is_forgotten",
        (Edit("stores/sql/exchange/receipts.py", "                self.receipts.keep_settled(settled)\n", ""),),
        "tests/receipts/test_receipts.py"
        "::test_a_receipt_that_could_not_be_deleted_is_deleted_when_the_database_is_back",
        "it does not wait for its end",
    ),
    Bug(
        "a_job_that_is_gone_from_its_chunk_holds_up_claims_in_full",
        (Edit(f"{_QUERIES}/chunk_rest.sql", " UNION ALL SELECT seq FROM missing", ""),),
        f"{_MISSING}::test_what_is_gone_from_the_front_of_a_chunk_does_not_hold_up_the_queue",
        "AssertionError",
    ),
    Bug(
        "a_chunk_without_jobs_stays_for_ever",
        (Edit(f"{_QUERIES}/over_lifetime.sql", "r.expires_at <= {{now}} AND NOT EXISTS", "FALSE AND NOT EXISTS"),),
        f"{_MISSING}::test_a_chunk_of_which_nothing_is_left_is_gone_after_its_lifetime",
        "AssertionError",
    ),
    Bug(
        "a_claim_tells_of_all_jobs_what_the_first_submit_said",
        (Edit("stores/sql/rows.py", "replace(firsts[row[_FIRST]], ", "replace(next(iter(firsts.values())), "),),
        f"{_CHUNKS}::test_a_claim_tells_of_every_job_what_its_own_submit_said",
        "assert JobRow(",
    ),
    Bug(
        "a_claim_tells_of_all_jobs_of_a_chunk_that_the_first_has_no_dependents",
        (Edit("stores/sql/rows.py", ", has_dependents=row[34])", ")"),),
        f"{_CHUNKS}::test_a_claim_tells_of_every_job_what_its_own_submit_said",
        "assert JobRow(",
    ),
    Bug(
        "a_plain_settle_changes_an_index",
        (
            Edit(
                f"{_QUERIES}/exchange_chunks.sql",
                "SET state = 'completed', ",
                "SET state = 'completed', parked = false, ",
            ),
        ),
        f"{_PLANS}::test_settles_of_plain_jobs_are_hot_updates",
        "an index mentions what a settle changes",
    ),
    Bug(
        "a_search_takes_a_plain_job_for_what_it_is_filed_as",
        (Edit(f"{_QUERIES}/found.sql", _OF_THE_STATE, "{{within}}"),),
        f"{_LISTS}::test_a_search_by_state_finds_what_is_true_page_by_page",
        "AssertionError",
    ),
    Bug(
        "a_look_at_the_newest_takes_a_plain_job_for_what_it_is_filed_as",
        (Edit(f"{_QUERIES}/newest.sql", _OF_THE_STATE, "{{within}}"),),
        f"{_LISTS}::test_every_look_at_the_newest_of_a_state_finds_what_is_true",
        "AssertionError",
    ),
    Bug(
        "a_list_of_what_completed_reads_through_all_that_waits",
        (
            Edit(
                f"{_QUERIES}/plain_ranges.sql",
                "FROM euterpe_ready AS r, unnest(r.ranges) AS x",
                "FROM unnest('{}'::int8multirange) AS x",
            ),
        ),
        f"{_PLANS}::test_every_hot_statement_goes_by_its_index[chunked]",
        "rows of inbox_jobs in vain",
    ),
    Bug(
        "retention_stops_at_older_jobs_that_wait",
        (Edit(f"{_QUERIES}/prunable.sql", "COALESCE({{plain_ranges}}, {{everywhere}})", "{{everywhere}}"),),
        f"{_LISTS}::test_retention_removes_what_completed_behind_older_jobs_that_still_wait",
        "AssertionError",
    ),
    Bug(
        "a_job_with_one_attempt_waits_in_a_chunk",
        (Edit("stores/sql/submitting/uniform_batch.py", "        and shared.max_attempts > 1\n", ""),),
        f"{_CHUNKS}::test_jobs_with_one_attempt_do_not_wait_in_chunks",
        "AssertionError",
    ),
    Bug(
        "jobs_that_tell_of_their_begin_wait_in_a_chunk",
        (
            Edit(
                "stores/sql/submitting/uniform_batch.py",
                "shared.callback_url is None or shared.callback_events == TERMINAL_ONLY",
                "True",
            ),
        ),
        f"{_TOLD}::test_jobs_that_tell_of_more_than_their_end_do_not_wait_in_chunks[all]",
        "AssertionError",
    ),
    Bug(
        "the_event_of_a_completion_under_a_receipt_is_lost",
        (
            Edit(
                _ONE_STATEMENT,
                "    if completions.with_callbacks:\n",
                "    if completions.with_callbacks and not request.limit:\n",
            ),
        ),
        f"{_TOLD}::test_a_completion_under_a_receipt_writes_the_event_that_its_row_tells[and claims]",
        "AssertionError",
    ),
    Bug(
        "a_completion_that_was_left_to_the_full_path_is_told_twice",
        (Edit(_ONE_STATEMENT, "        if done.settled is None or _claim_of(job) in done.settled\n", ""),),
        f"{_TOLD}::test_dependents_that_came_meanwhile_are_released_and_the_end_is_told_once",
        "a job has two events",
    ),
    Bug(
        "an_event_tells_what_was_claimed_and_not_what_was_changed_since",
        (
            Edit(
                f"{_QUERIES}/exchange_chunks.sql",
                "THEN j.callback_url IS NULL AND j.id <> ALL (CAST(string_to_array(:with_callbacks, ',') AS uuid[]))",
                "THEN true",
            ),
        ),
        f"{_TOLD}::test_an_event_tells_what_a_requester_changed_while_the_job_ran",
        "AssertionError",
    ),
    Bug(
        "a_callback_that_was_taken_away_is_told_of_a_completion_under_a_receipt",
        (
            Edit(
                f"{_QUERIES}/exchange_chunks.sql",
                "THEN j.callback_url IS NULL AND j.id <> ALL (CAST(string_to_array(:with_callbacks, ',') AS uuid[]))",
                "THEN j.callback_url IS NULL",
            ),
        ),
        "tests/conformance/test_callback_completions.py"
        "::test_a_callback_that_was_taken_away_is_told_nothing[postgres chunks]",
        "Extra items in the left set",
    ),
    Bug(
        "an_event_is_written_in_a_transaction_of_its_own",
        (
            Edit(
                _ONE_STATEMENT,
                "self._engine.write if simple.with_callbacks else self._engine.write_one",
                "self._engine.write_one",
            ),
        ),
        f"{_TOLD}::test_an_end_whose_event_cannot_be_written_is_none",
        "AssertionError",
    ),
    Bug(
        "a_plain_completion_is_not_fenced_by_the_chunk",
        (
            Edit(
                f"{_QUERIES}/exchange_chunks.sql",
                "i.claim_version = 1 AND j.chunk IS NOT NULL AND ",
                "i.claim_version = 1 AND ",
            ),
        ),
        f"{_RECEIPTS}::test_jobs_of_a_claim_whose_answer_was_lost_are_given_back_uncharged",
        "AssertionError",
    ),
    Bug(
        "a_plain_completion_forgets_dependents",
        (Edit(f"{_QUERIES}/exchange_chunks.sql", "AND NOT j.has_dependents ", ""),),
        f"{_RECEIPTS}::test_a_dependent_that_comes_while_a_job_runs_under_a_receipt_is_told_of_its_end",
        "<State.PENDING: 'pending'> is <State.SCHEDULED: 'scheduled'>",
    ),
    Bug(
        "progress_of_a_job_whose_row_is_held_calls_its_claim_stale",
        (
            Edit(_CONVERSIONS, 'frozenset({"settle", ', 'frozenset({"advance", "settle", '),
            Edit(_CONVERSIONS, ', "advance"})', "})"),
        ),
        f"{_RECEIPTS}::test_progress_waits_for_a_row_that_somebody_holds_and_calls_no_claim_stale",
        "AssertionError",
    ),
    Bug(
        "a_claim_that_goes_onto_its_row_uses_up_no_version",
        (Edit(f"{_QUERIES}/claimed_then.sql", "claim_version = 1, ", ""),),
        f"{_RECEIPTS}::test_whoever_knows_a_claim_renews_releases_fails_or_completes_it_from_another_process",
        "AssertionError",
    ),
    Bug(
        "a_cancel_takes_a_claimed_job_for_one_that_waits",
        (
            Edit(
                _CONVERSIONS,
                'frozenset({"get_jobs_for_update", "await_rows", "end_waiting"})',
                'frozenset({"await_rows"})',
            ),
        ),
        f"{_RECEIPTS}::test_a_cancel_reaches_a_job_under_a_receipt_and_force_ends_it_at_once",
        "AssertionError",
    ),
    Bug(
        "a_lifetime_ends_beside_the_receipt",
        (Edit(_CONVERSIONS, "if name == BY_LIFETIME:", "if False:"), Edit(_CONVERSIONS, ', "end_waiting"})', "})")),
        f"{_RECEIPTS}::test_a_lifetime_ends_a_job_under_a_receipt_and_no_late_settle_is_accepted",
        "AssertionError",
    ),
    Bug(
        "a_job_is_taken_for_claimed_before_its_chunk_is_looked_at_again",
        (Edit(_CONVERSIONS, '        yield one("materialise", ids=waiting)\n', ""),),
        f"{_PAIRS}[claim]",
        ("and the job goes on", "nobody would tell it", "places"),
    ),
    Bug(
        "a_chunk_is_not_waited_for",
        (
            Edit(
                f"{_QUERIES}/lock_chunks.sql", "ORDER BY r.chunk FOR UPDATE", "ORDER BY r.chunk FOR UPDATE SKIP LOCKED"
            ),
        ),
        f"{_PAIRS}[claim]",
        ("and the job goes on", "nobody would tell it", "places", "handed out", "a chunk says", "knows nothing of"),
    ),
    Bug(
        "a_receipt_goes_before_the_last_of_its_jobs",
        (Edit(f"{_QUERIES}/end_receipts.sql", "AND NOT EXISTS", "AND 0 < 1 OR NOT EXISTS"),),
        f"{_RECEIPTS}::test_a_row_that_somebody_holds_keeps_its_receipt_and_its_lease",
        "it still stands for the job that is held",
    ),
    Bug(
        "a_lease_is_lost_while_somebody_holds_its_row",
        (Edit(_CONVERSIONS, 'if statement.name == "heartbeat" and plain:', "if False:"),),
        f"{_RECEIPTS}::test_a_row_that_somebody_holds_keeps_its_receipt_and_its_lease",
        "AssertionError",
    ),
    Bug(
        "a_receipt_outlasts_the_shortest_of_its_leases",
        (Edit(f"{_QUERIES}/exchange_chunks.sql", "LEAST(:lease_ttl_us, MIN(p.lease_us))", ":lease_ttl_us"),),
        f"{_RECEIPTS}::test_a_receipt_ends_as_early_as_the_shortest_of_its_leases",
        "AssertionError",
    ),
    Bug(
        "what_is_left_of_a_chunk_overtakes_the_next_one",
        (Edit(f"{_QUERIES}/chunk_line.sql", "          UNION ALL SELECT priority, lo FROM behind\n", ""),),
        f"{_BEHIND_A_GAP}[one statement]",
        "AssertionError",
    ),
    Bug(
        "a_claim_of_interleaved_chunks_leaves_slots_free",
        (
            Edit(
                f"{_QUERIES}/chunk_line.sql",
                " OR (n.lo < n.first + wanted.total AND n.ahead_of_all < wanted.total)",
                "",
            ),
        ),
        f"{_INTERLEAVED}[one statement]",
        "AssertionError",
    ),
    Bug(
        "a_claim_in_full_stops_at_the_first_chunk_that_stands_between",
        (Edit("stores/sql/jobs/claim.py", "        has_chunks = rows[0][0]\n", "        has_chunks = False\n"),),
        f"{_BEHIND_A_GAP}[in full]",
        "AssertionError",
    ),
    Bug(
        "a_claim_that_others_hold_up_comes_back_empty",
        (
            Edit(
                "stores/sql/jobs/claim.py",
                "return Taken(jobs, has_chunks and not jobs and request.limit > 0)",
                "return Taken(jobs, False)",
            ),
        ),
        f"{_CHUNKS}::test_a_claim_that_meets_only_chunks_which_others_hold_asks_again",
        "AssertionError",
    ),
    Bug(
        "a_claim_in_full_loses_the_job_whose_row_somebody_holds",
        (Edit(f"{_QUERIES}/chunk_rest.sql", "(SELECT seq FROM taken UNION ALL", "(SELECT seq FROM front UNION ALL"),),
        f"{_CHUNKS}::test_a_claim_in_full_leaves_a_row_that_somebody_holds_in_its_chunk",
        "AssertionError",
    ),
    Bug(
        "chunks_come_before_lone_jobs",
        (
            Edit(
                f"{_QUERIES}/exchange.sql",
                "    WHERE {{claimable}} AND NOT (SELECT are_there FROM chunks)\n",
                "    WHERE {{claimable}}\n",
            ),
        ),
        f"{_CHUNKS}::test_chunks_and_lone_jobs_are_claimed_in_one_order",
        "AssertionError",
    ),
    Bug(
        "chunks_are_written_beside_an_older_release",
        (Edit(f"{_QUERIES}/insert_uniform.sql", "WHERE NOT w.knows_chunks AND", "WHERE false AND"),),
        f"{_CHUNKS}::test_no_chunk_is_written_while_a_worker_of_an_older_release_is_alive",
        "AssertionError",
    ),
    Bug(
        "an_older_release_could_claim_out_of_a_chunk",
        (Edit(f"{_QUERIES}/insert_uniform.sql", "AS integer)] END, lot.chunked", "AS integer)] END, false"),),
        f"{_CHUNKS}::test_an_older_release_sees_nothing_to_claim_in_a_chunk",
        "AssertionError",
    ),
    Bug(
        "what_lasts_stays_on_its_receipt",
        (Edit("stores/sql/exchange/one_statement.py", "            self._watch.begin()\n", ""),),
        f"{_RECEIPTS}::test_what_lasts_shows_as_running_wherever_anybody_looks",
        "TimeoutError",
    ),
)
