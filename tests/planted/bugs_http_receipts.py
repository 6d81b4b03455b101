"""Bugs in claims of HTTP workers that stand on receipts (ADR 017)."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_QUERIES = "stores/sql/queries/postgres"
_CONVERSIONS = "stores/sql/postgres/conversions.py"
_WIRE = "stores/sql/worker_protocol"
_REMOTE = "stores/remote/exchange.py"
_TESTS = "tests/receipts/test_http_receipts.py"
_TURNS = "tests/server/test_worker_turns.py"
_OLDER = "tests/remote/test_receipts.py"
_KEPT = "tests/remote/test_kept_receipts.py"

HTTP_RECEIPT_BUGS = (
    Bug(
        "the_keeper_reads_the_tokens_of_receipts_cut_short",
        (Edit("worker/heartbeat/lease_table.py", "36sqdq72s", "36sqdq64s"),),
        "tests/worker_units/test_lease_table.py::test_the_keeper_reads_a_token_as_it_was_given",
        "AssertionError",
    ),
    Bug(
        "a_keeper_that_reads_tokens_cut_short_loses_the_leases_of_its_worker",
        (Edit("worker/heartbeat/lease_table.py", "36sqdq72s", "36sqdq64s"),),
        f"{_KEPT}::test_a_keeper_renews_leases_on_receipts_and_nobody_else_runs_their_jobs",
        ("no lease runs out", "nobody ran it twice"),
    ),
    Bug(
        "receipts_of_a_killed_worker_are_left_to_run_out",
        (Edit(_CONVERSIONS, '"claims_of_worker": "worker_id"', '"claims_of_nobody": "worker_id"'),),
        f"{_KEPT}::test_the_keeper_of_a_killed_worker_gives_back_what_had_not_begun_under_a_receipt",
        "becomes scheduled",
    ),
    Bug(
        "the_token_of_a_neighbour_completes_a_job_under_a_receipt",
        (
            Edit(
                f"{_WIRE}/receipts.py",
                "return job if compare_digest(held.token_hash, report.token_hash) else None",
                "return job",
            ),
        ),
        f"{_TESTS}::test_nobody_renews_or_ends_a_lease_with_the_token_of_its_neighbour",
        "AssertionError",
    ),
    Bug(
        "behind_a_gap_a_lease_gets_the_token_of_another",
        (Edit(f"{_QUERIES}/receipt_token.sql", "SUM(LEAST(upper(x), j.seq) - lower(x))", "SUM(j.seq - lower(x))"),),
        f"{_TESTS}::test_every_lease_finds_its_token_behind_gaps_and_other_chunks",
        "AssertionError",
    ),
    Bug(
        "a_claim_goes_onto_its_row_without_its_token",
        (Edit(f"{_QUERIES}/claimed_then.sql", "lease_token_hash = {{receipt_token}},", ""),),
        f"{_TESTS}::test_what_lasts_goes_onto_its_row_with_its_token",
        "AssertionError",
    ),
    Bug(
        "an_attempt_under_a_receipt_completes_past_its_deadline",
        (
            Edit(
                f"{_QUERIES}/complete_by_receipt.sql",
                "      AND i.started_at + j.execution_timeout_us >= {{now}}\n",
                "",
            ),
        ),
        f"{_TESTS}::test_past_its_deadline_an_attempt_under_a_receipt_is_refused_and_the_sweep_ends_it",
        "AssertionError",
    ),
    Bug(
        "a_lease_on_a_receipt_outlasts_the_deadline_of_a_worker_over_http",
        (Edit(f"{_QUERIES}/receipt_lease.sql", "ELSE 0 END", "ELSE {{overrun}} END"),),
        f"{_TESTS}::test_past_its_deadline_an_attempt_under_a_receipt_is_refused_and_the_sweep_ends_it",
        "AssertionError",
    ),
    Bug(
        "a_receipt_of_a_worker_over_http_outlasts_the_deadline_of_its_attempts",
        (Edit(f"{_QUERIES}/claim_for_receipt.sql", "w.seq = lower(x)), p", "w.seq < 0), p"),),
        f"{_TESTS}::test_past_its_deadline_an_attempt_under_a_receipt_is_refused_and_the_sweep_ends_it",
        "AssertionError",
    ),
    Bug(
        "a_completion_under_a_receipt_forgets_what_was_said",
        (Edit(f"{_QUERIES}/complete_by_receipt.sql", "outcome_hash = substring", "outcome_hash = NULL || substring"),),
        f"{_TESTS}::test_a_report_that_comes_again_gets_the_first_answer_and_any_other_is_refused",
        "AssertionError",
    ),
    Bug(
        "a_heartbeat_by_token_knows_no_receipts",
        (Edit(_CONVERSIONS, "    elif name in BY_TOKEN and", "    elif not name and"),),
        f"{_TESTS}::test_a_heartbeat_renews_a_lease_on_a_receipt_from_any_process",
        "AssertionError",
    ),
    Bug(
        "a_lease_by_token_is_lost_while_somebody_holds_its_row",
        (Edit(_CONVERSIONS, "[*renewed, *(row for row in known if row[0] not in answered)]", "renewed"),),
        f"{_TESTS}::test_a_lease_whose_row_somebody_holds_is_not_called_gone",
        "AssertionError",
    ),
    Bug(
        "one_receipt_stands_for_the_claims_of_several_workers",
        (
            Edit(
                f"{_WIRE}/fast_path.py",
                "if request.by_receipt and worker_ids.count(worker_ids[0]) == len(worker_ids):",
                "if request.by_receipt:",
            ),
        ),
        f"{_TESTS}::test_several_workers_share_what_is_not_enough_for_all",
        "AssertionError",
    ),
    Bug(
        "the_first_of_several_workers_takes_what_is_not_enough_for_all",
        (
            Edit(
                f"{_WIRE}/fast_path.py", "count_in_chunks(request)) >= request.total", "count_in_chunks(request)) >= 0"
            ),
        ),
        f"{_TESTS}::test_several_workers_share_what_is_not_enough_for_all",
        "AssertionError",
    ),
    Bug(
        "what_one_worker_got_is_lost_for_the_error_of_another",
        (Edit(f"{_WIRE}/store.py", "                if not claims:\n", "                if worker_ids:\n"),),
        f"{_TESTS}::test_what_one_worker_got_is_not_lost_when_the_claim_for_the_next_one_fails",
        "StoreUnavailable",
    ),
    Bug(
        "whoever_says_nothing_of_receipts_gets_one",
        (Edit(f"{_WIRE}/fast_path.py", "if request.by_receipt and ", "if "),),
        f"{_TESTS}::test_who_does_not_take_receipts_gets_none",
        "AssertionError",
    ),
    Bug(
        "a_closed_control_plane_leaves_its_receipts",
        (Edit("stores/sql/store.py", "            await self.control_plane.close()\n", "            pass\n"),),
        f"{_TESTS}::test_a_store_that_is_closed_leaves_its_claims_on_their_rows",
        "AssertionError",
    ),
    Bug(
        "what_a_lost_claim_has_on_a_receipt_is_charged",
        (Edit(f"{_WIRE}/store.py", "request.total if request.by_receipt else 0", "0"),),
        "tests/faults/test_ambiguous_commits.py"
        "::test_what_was_claimed_by_a_receipt_for_http_workers_is_given_back_when_the_answer_was_lost",
        "AssertionError",
    ),
    Bug(
        "the_refusal_of_an_older_control_plane_is_the_last_word",
        (Edit(_REMOTE, "        if not answer.receipts:\n", "        if not answer:\n"),),
        f"{_OLDER}::test_what_an_older_control_plane_refuses_is_told_again",
        "AssertionError",
    ),
    Bug(
        "an_older_control_plane_takes_a_lease_on_a_receipt_away",
        (Edit(_REMOTE, "if k.ok or answer.receipts or not _is_on_receipt(lease)", "if True"),),
        f"{_OLDER}::test_a_heartbeat_to_an_older_control_plane_loses_no_lease_on_a_receipt",
        "AssertionError",
    ),
    Bug(
        "jobs_that_differ_are_told_as_if_they_were_alike",
        (Edit("server/routes/claims.py", "    return same == job\n", "    return bool(same)\n"),),
        f"{_TURNS}::test_jobs_that_were_submitted_alike_are_told_together_to_whoever_reads_that",
        "AssertionError",
    ),
    Bug(
        "an_older_worker_is_told_of_jobs_together",
        (Edit("server/routes/worker.py", "body.claim is not None and body.claim.uniform", "body.claim is not None"),),
        f"{_TURNS}::test_reports_and_the_next_claim_go_in_one_request",
        "AssertionError",
    ),
    Bug(
        "a_job_that_is_told_together_with_others_has_their_payload",
        (Edit("stores/remote/documents.py", "id=job_id, payload=wire_to_stored(payload, form))", "id=job_id)"),),
        f"{_OLDER}::test_jobs_that_are_told_together_are_claims_like_all_others",
        "AssertionError",
    ),
    Bug(
        "an_older_control_plane_that_reads_no_short_reports_has_completed_them",
        (Edit(_REMOTE, "                verdicts.append(_UNREAD)\n", "                verdicts.append(COMPLETED)\n"),),
        f"{_OLDER}::test_what_an_older_control_plane_refuses_is_told_again",
        "AssertionError",
    ),
    Bug(
        "a_short_report_is_accepted_whatever_was_refused",
        (Edit("server/routes/worker.py", "if reply.state is None] if done", "if reply is None] if done"),),
        f"{_TURNS}::test_completions_in_their_shorter_form_are_answered_by_what_was_refused",
        "AssertionError",
    ),
    Bug(
        "the_event_of_a_completion_under_a_receipt_over_http_is_lost",
        (Edit(f"{_WIRE}/receipts.py", "if with_callbacks and (ends :=", "if not with_callbacks and (ends :="),),
        f"{_TESTS}::test_a_completion_writes_the_event_that_its_row_tells_once",
        "AssertionError",
    ),
    Bug(
        "the_event_of_a_completion_over_http_that_was_left_is_told_twice",
        (Edit(f"{_WIRE}/receipts.py", "set(with_callbacks).intersection(settled)", "set(with_callbacks)"),),
        f"{_TESTS}::test_the_event_of_a_job_that_was_left_to_the_full_path_is_told_once",
        "AssertionError",
    ),
)
