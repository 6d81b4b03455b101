"""Bugs in claims and reports of HTTP workers."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_TOKENS = "tests/conformance/test_lease_tokens.py"
_TURNS = "tests/server/test_worker_turns.py"
_TOGETHER = "tests/remote/test_told_together.py"
_KEPT = "tests/remote/test_kept_leases.py"

HTTP_BUGS = (
    Bug(
        "the_keeper_reads_tokens_cut_short",
        (Edit("_SLOT", "256sqdq88s", "256sqdq40s"),),
        "tests/worker_units/test_lease_table.py::test_the_keeper_reads_a_token_as_it_was_given",
        "AssertionError",
    ),
    Bug(
        "any_token_ends_an_attempt_that_another_control_plane_handed_out",
        (Edit("LeaseTokens._is_valid", "        return any(hmac", "        return bool(shown) or any(hmac"),),
        "tests/server/test_worker_protocol.py::test_a_wrong_token_beside_the_right_one_harms_nobody",
        "AssertionError",
    ),
    Bug(
        "a_plain_completion_of_an_http_worker_is_accepted_past_its_deadline",
        (
            Edit(
                "settled.sql",
                "      AND (CAST(:outcome_hashes AS bytea) IS NULL OR j.started_at + j.execution_timeout_us >= {{now}})\n",
                "",
            ),
        ),
        "tests/server/test_execution_timeouts.py::test_a_completion_after_the_deadline_is_refused",
        "assert",
    ),
    Bug(
        "a_lease_outlasts_the_deadline_of_a_worker_over_http",
        (Edit("WorkerProtocolStore.claim_for", "            overrun_us=0,\n            number", "            number"),),
        "tests/server/test_execution_timeouts.py::test_the_deadline_bounds_the_lease_of_a_claim",
        "assert",
    ),
    Bug(
        "a_completion_over_http_forgets_what_was_said",
        (
            Edit(
                "settled.sql",
                "outcome_hash = substring",
                "outcome_hash = NULL || substring",
            ),
        ),
        f"{_TURNS}::test_a_turn_is_safe_to_repeat_and_its_entries_agree_with_the_single_routes",
        "assert",
    ),
    Bug(
        "jobs_that_differ_are_told_as_if_they_were_alike",
        (Edit("_are_uniform", "    return same == job\n", "    return bool(same)\n"),),
        f"{_TURNS}::test_jobs_that_were_submitted_alike_are_told_together_to_whoever_reads_that",
        "AssertionError",
    ),
    Bug(
        "an_older_worker_is_told_of_jobs_together",
        (Edit("WorkerRoutes.exchange", "body.claim is not None and body.claim.uniform", "body.claim is not None"),),
        f"{_TURNS}::test_reports_and_the_next_claim_go_in_one_request",
        "AssertionError",
    ),
    Bug(
        "a_job_that_is_told_together_with_others_has_their_payload",
        (Edit("remote/documents.py:claims_of", "id=job_id, payload=wire_to_stored(payload, form))", "id=job_id)"),),
        f"{_TOGETHER}::test_jobs_that_are_told_together_are_claims_like_all_others",
        "AssertionError",
    ),
    Bug(
        "a_token_is_any_workers",
        (
            Edit("Signer.token_of", '{job_id}:{claim_version}:{worker_id}"', '{job_id}:{claim_version}"'),
            Edit("HandedOut.find", " or claim.job.worker_id != lease.worker_id", ""),
        ),
        f"{_TOKENS}::test_a_token_is_valid_for_its_own_job_claim_and_worker_alone",
        "AssertionError",
    ),
    Bug(
        "a_remembered_claim_is_settled_with_any_token",
        (Edit("HandedOut.find", "return claim if is_own else None", "return claim"),),
        f"{_TOKENS}::test_a_token_is_valid_for_its_own_job_claim_and_worker_alone",
        "AssertionError",
    ),
    Bug(
        "a_heartbeat_needs_no_token",
        (
            Edit(
                "WorkerProtocolStore.renew_leases",
                "valid = await self._tokens.check(shown)",
                "valid = [True] * len(shown)",
            ),
        ),
        f"{_TOKENS}::test_a_token_is_valid_for_its_own_job_claim_and_worker_alone",
        "AssertionError",
    ),
    Bug(
        "every_control_plane_has_a_secret_of_its_own",
        (Edit("read_secrets", "return [bytes(row[0]) for row in rows]", "return [secrets.token_bytes(32)]"),),
        f"{_TOKENS}::test_any_control_plane_settles_and_answers_again",
        "AssertionError",
    ),
    Bug(
        "a_token_of_the_older_secret_is_refused_at_once",
        (Edit("LeaseTokens._is_valid", "for signer in self._signers)", "for signer in self._signers[:1])"),),
        f"{_TOKENS}::test_two_secrets_are_valid_while_one_is_rotated",
        "it reads the secrets once more",
    ),
    Bug(
        "a_control_plane_signs_with_an_old_secret_for_ever",
        (Edit("LeaseTokens.open", " or self._clock() - self._loaded_at >= SIGN_WITH_S", ""),),
        f"{_TOKENS}::test_two_secrets_are_valid_while_one_is_rotated",
        "AssertionError",
    ),
    Bug(
        "any_report_on_a_closed_attempt_gets_its_answer",
        (Edit("first_answer", " or bytes(closed[0][1]) != outcome_hash", ""),),
        f"{_TOKENS}::test_any_control_plane_settles_and_answers_again",
        "AssertionError",
    ),
    Bug(
        "all_jobs_of_a_claim_are_the_first_workers",
        (
            Edit(
                "leased.sql",
                "COALESCE((CAST(:worker_ids AS text[]))[n.place], :worker_id)",
                ":worker_id",
            ),
        ),
        f"{_TOKENS}::test_the_most_urgent_jobs_are_for_the_first_workers",
        "AssertionError",
    ),
    Bug(
        "all_jobs_of_a_claim_on_sqlite_are_the_first_workers",
        (Edit("take", "worker_ids=picked.owners()", "worker_ids=None"),),
        f"{_TOKENS}::test_the_most_urgent_jobs_are_for_the_first_workers",
        "AssertionError",
    ),
    Bug(
        "a_job_is_given_back_past_its_deadline",
        (Edit("Settlement.in_time", "self.state in (State.COMPLETED, State.SCHEDULED)", "False"),),
        f"{_TOKENS}::test_past_its_deadline_an_attempt_can_only_fail",
        "AssertionError",
    ),
    Bug(
        "a_lost_claim_is_given_back_with_what_runs",
        (Edit("LostClaim._look", "is_new and not self._handed_out.knows(", "is_new or self._handed_out.knows("),),
        f"{_TOKENS}::test_a_claim_whose_answer_was_lost_is_given_back_and_no_other",
        "AssertionError",
    ),
    Bug(
        "a_lost_claim_waits_for_the_end_of_its_leases",
        (Edit("WorkerProtocolStore.claim_for", "            await if_lost.give_back()\n", ""),),
        f"{_TOKENS}::test_a_claim_whose_answer_was_lost_is_given_back_and_no_other",
        "AssertionError",
    ),
    Bug(
        "the_keeper_shows_tokens_under_another_name",
        (Edit("lease_keeper/service.py:run", "    table.worker_id = known.worker_id\n", ""),),
        f"{_KEPT}::test_a_keeper_renews_leases_and_nobody_else_runs_their_jobs",
        ("AssertionError", "TimeoutError"),
    ),
    Bug(
        "a_replayed_key_is_refused_when_the_quota_is_used_up",
        (
            Edit(
                "JobRoutes._submit",
                "            if stored is None:\n                raise\n",
                "            raise\n",
            ),
        ),
        "tests/server/test_quotas.py::test_a_replay_is_answered_though_the_quota_is_used_up",
        "assert",
    ),
)
