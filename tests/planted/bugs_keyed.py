"""Bugs in concurrency keys and rates: their counters, their places, and the walks that repair them."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_TURNS = "tests/conformance/test_keyed_turns.py"
_HELD = "tests/caller/test_held_keys.py"
_KEYS = "tests/conformance/test_concurrency_keys.py"
_PLACES = "tests/conformance/test_key_places.py"
_RATES = "tests/conformance/test_rates.py"
_COUNTERS = "tests/walks/test_key_counters.py"
_WALKS = "tests/walks/test_walks.py"
_ACTS = f"{_COUNTERS}::test_after_every_act_counters_and_places_are_those_of_the_rows[0]"

KEYED_BUGS = (
    Bug(
        "the_fence_of_a_turn_with_keys_forgets_the_version",
        (
            Edit("settle_completed.sql", "w.claim_version = i.claim_version AND ", ""),
            Edit("settle_completed.sql", "j.claim_version = i.claim_version AND ", ""),
        ),
        f"{_TURNS}::test_a_stale_completion_ends_nothing_and_the_others_free_their_places[postgres]",
        "<State.COMPLETED: 'completed'> is <State.RUNNING: 'running'>",
    ),
    Bug(
        "a_turn_with_keys_ends_a_job_that_got_a_dependent",
        (
            Edit(
                "settle_completed.sql",
                "RETURNING {{moved_columns}}",
                "RETURNING CAST(j.id AS text), j.state, false, j.callback_url IS NOT NULL, j.callback_events, {{limit_key}}",
            ),
        ),
        f"{_TURNS}::test_a_job_that_got_a_dependent_meanwhile_releases_it[postgres]",
        "State.PENDING",
    ),
    Bug(
        "a_claim_does_not_count_what_it_takes_of_a_key",
        (Edit("keys_taken.sql", "running = k.running + x.taken, ", ""),),
        _ACTS,
        "AssertionError",
    ),
    Bug(
        "a_claim_leaves_what_it_took_counted_in_the_line",
        (Edit("keys_taken.sql", ", in_line = k.in_line - x.gone", ""),),
        _ACTS,
        "AssertionError",
    ),
    Bug(
        "the_place_of_an_ended_job_is_not_freed",
        (
            Edit(
                "postgres/hold_keys.sql",
                "k.running - CAST(excluded.passed_until AS integer)",
                "k.running",
            ),
        ),
        f"{_KEYS}::test_a_parked_job_goes_on_when_a_running_one_ends[postgres-complete]",
        "AssertionError",
    ),
    Bug(
        "jobs_enter_the_line_past_the_limit_of_their_key",
        (
            Edit(
                "postgres/admit_in_order.sql",
                "(b.in_line + b.place > b.places) IS TRUE AS lacks_place",
                "false AS lacks_place",
            ),
        ),
        f"{_PLACES}::test_several_urgent_jobs_take_as_many_places_as_there_are[postgres]",
        "AssertionError",
    ),
    Bug(
        "the_end_of_a_job_lets_more_into_the_line_than_its_key_has_places",
        (
            Edit(
                "postgres/admit.sql",
                "(a.in_line + a.place > a.places) IS TRUE AS lacks_place",
                "false AS lacks_place",
            ),
            Edit("key_ahead.sql", " - CASE WHEN k.look > 0 THEN 0 ELSE k.in_line END", ""),
        ),
        f"{_KEYS}::test_as_many_parked_jobs_go_on_as_places_became_free[postgres]",
        "AssertionError",
    ),
    Bug(
        "jobs_enter_the_line_without_a_token",
        (
            Edit(
                "postgres/admit_in_order.sql",
                "(b.in_line + b.place > b.tokens) IS TRUE AS lacks_token",
                "false AS lacks_token",
            ),
        ),
        f"{_RATES}::test_a_burst_starts_at_once_and_then_one_a_token_in_order[postgres]",
        "AssertionError",
    ),
    Bug(
        "a_claim_takes_no_token",
        (Edit("keys_taken.sql", "x.taken * r.interval_us", "0 * r.interval_us"),),
        f"{_RATES}::test_a_burst_starts_at_once_and_then_one_a_token_in_order[postgres]",
        "AssertionError",
    ),
    Bug(
        "what_lost_its_token_stays_in_the_line",
        (Edit("postgres/admit_in_order.sql", "p.n <= p.over OR ", ""),),
        f"{_RATES}::test_what_a_handler_charges_is_waited_for[postgres]",
        "AssertionError",
    ),
    Bug(
        "nobody_is_told_when_a_key_has_a_token",
        (
            Edit(
                "key_admitted.sql",
                "CASE WHEN bool_or(a.lacks_token AND NOT a.lacks_place) THEN MIN(a.next_at) END",
                "CAST(NULL AS bigint)",
            ),
        ),
        f"{_RATES}::test_a_burst_starts_at_once_and_then_one_a_token_in_order[postgres]",
        ("AssertionError", "assert"),
    ),
    Bug(
        "a_job_begins_beside_more_than_its_own_limit_allows",
        (
            Edit(
                "key_ahead.sql",
                "LEAST(a.least, MIN(a.most) OVER line)",
                "MIN(a.most) OVER line",
            ),
        ),
        f"{_PLACES}::test_a_smaller_limit_holds_for_its_own_job_in_whatever_order_jobs_are_claimed[postgres]",
        "AssertionError",
    ),
    Bug(
        "an_urgent_job_waits_for_less_urgent_ones_of_its_key",
        (Edit("LOOK", "LOOK: Final = 100", "LOOK: Final = 0"),),
        f"{_PLACES}::test_an_urgent_job_takes_the_place_of_one_that_does_not_run_yet[postgres]",
        "AssertionError",
    ),
    Bug(
        "a_paused_job_keeps_the_place_of_its_key",
        (Edit("postgres/admit_in_order.sql", "THEN 2\n", "THEN 0\n"),),
        f"{_PLACES}::test_what_is_paused_in_the_line_gives_its_place_at_once_when_another_comes[postgres-type]",
        "AssertionError",
    ),
    Bug(
        "a_paused_job_enters_the_line_of_its_key",
        (Edit("key_kinds.sql", "p.kind = 'type' AND p.name = w.type", "false"),),
        f"{_KEYS}::test_a_free_slot_goes_to_a_job_that_is_not_paused[postgres]",
        "AssertionError",
    ),
    Bug(
        "a_type_that_nobody_takes_keeps_the_places_of_its_key",
        (
            Edit(
                "repair_keys",
                '        yield one("pass_over", names=list(names), stale_us=STALE_US, rest_us=REST_US)\n',
                "",
            ),
        ),
        f"{_PLACES}::test_a_type_that_nobody_takes_does_not_keep_the_places_of_its_key[postgres]",
        "AssertionError",
    ),
    Bug(
        "a_cancelled_job_stays_counted_in_the_line_of_its_key",
        (Edit("apply_effects", "freed, left=left, ", "freed, "),),
        f"{_PLACES}::test_what_is_cancelled_in_the_line_gives_its_place_to_the_next[postgres]",
        "AssertionError",
    ),
    Bug(
        "a_job_that_becomes_less_urgent_stays_counted_in_the_line",
        (Edit("_admit", ", left=[(key, job.id)]", ""),),
        f"{_PLACES}::test_a_job_that_becomes_less_urgent_loses_its_place[postgres]",
        "AssertionError",
    ),
    Bug(
        "a_claim_waits_for_a_key_that_somebody_holds",
        (Edit("postgres/front.sql", "FOR NO KEY UPDATE SKIP LOCKED", "FOR NO KEY UPDATE"),),
        f"{_HELD}::test_a_turn_that_holds_keys_passes_over_jobs_of_a_key_that_somebody_else_counts",
        ("AssertionError", "DatabaseLocked", "lock timeout", "TimeoutError"),
    ),
    Bug(
        "places_are_given_by_counts_older_than_the_lock",
        (
            Edit(
                "hold_keys",
                '    yield each("hold_keys", name=names, freed=[freed[name] for name in names])\n',
                '    yield each("hold_keys", name=[], freed=[])\n',
            ),
        ),
        f"{_HELD}::test_a_place_is_given_by_counts_that_are_younger_than_the_lock_that_was_waited_for",
        ("AssertionError", "assert"),
    ),
    Bug(
        "a_callers_transaction_holds_the_key_of_its_job",
        (
            Edit(
                "submitting/submit.py:_store",
                "admit(dict.fromkeys(keys, 0)) if may_hold else admit_after_commit(keys)",
                "admit(dict.fromkeys(keys, 0))",
            ),
        ),
        f"{_COUNTERS}::test_a_submit_in_a_callers_transaction_holds_no_key",
        ("AssertionError", "nothing to claim"),
    ),
    Bug(
        "nobody_admits_the_job_of_a_callers_transaction",
        (Edit("admit_due", '    names |= {row[0] for row in (yield one("take_entered_keys", limit=limit))}\n', ""),),
        f"{_COUNTERS}::test_a_submit_in_a_callers_transaction_holds_no_key",
        "AssertionError",
    ),
    Bug(
        "a_sweep_does_not_count_what_runs_of_a_key",
        (Edit("repair_keys", '        yield each("recount_running", name=sorted(names))\n', ""),),
        f"{_COUNTERS}::test_wrong_counters_are_counted_again_by_a_sweep",
        "AssertionError",
    ),
    Bug(
        "a_sweep_does_not_count_what_of_a_key_is_in_the_line",
        (
            Edit(
                "repair_keys",
                '        yield each("recount_line", name=sorted(names), id=[None] * len(names))\n',
                "",
            ),
        ),
        f"{_COUNTERS}::test_wrong_counters_are_counted_again_by_a_sweep",
        "AssertionError",
    ),
    Bug(
        "keys_that_nobody_uses_stay_for_ever",
        (Edit("repair_keys", '        yield one("forget_keys", names=list(names))\n', "        pass\n"),),
        f"{_COUNTERS}::test_keys_that_nobody_uses_are_forgotten",
        "AssertionError",
    ),
    Bug(
        "a_job_in_no_line_is_not_adopted",
        (Edit("adopt.sql", ", {{enter}}, forgotten AS", ", forgotten AS"),),
        f"{_WALKS}::test_a_job_that_is_ready_and_in_no_line_is_adopted[plain]",
        "AssertionError",
    ),
    Bug(
        "a_job_in_a_longer_run_is_adopted",
        (Edit("adopt.sql", "r.seq BETWEEN j.seq - 249 AND j.seq", "r.seq = j.seq"),),
        f"{_WALKS}::test_what_is_in_a_line_is_not_adopted",
        "AssertionError",
    ),
    Bug(
        "the_walk_for_jobs_in_no_line_stays_where_it_is",
        (Edit("adopt", "last if looked_at == limit else 0", "0"),),
        f"{_WALKS}::test_the_walk_takes_bounded_steps_and_begins_anew",
        "AssertionError",
    ),
    Bug(
        "adopted_jobs_are_not_counted",
        (Edit("Sweeper._recover", "self._telemetry.adopted(recovered.adopted)", "pass"),),
        f"{_WALKS}::test_adopted_jobs_are_counted",
        "AssertionError",
    ),
    Bug(
        "a_run_without_jobs_stays_in_the_line",
        (
            Edit(
                "line_page.sql",
                "USING empty AS e WHERE r.ctid = e.at",
                "USING empty AS e WHERE r.ctid = e.at AND false",
            ),
        ),
        f"{_WALKS}::test_a_run_whose_jobs_are_gone_is_dropped",
        "AssertionError",
    ),
    Bug(
        "a_claim_does_not_move_on_with_its_leases",
        (Edit("refresh_running.sql", "l.expires_at >= {{now}}\n)", "false\n)"),),
        f"{_WALKS}::test_a_claim_moves_on_with_its_leases_and_goes_with_its_jobs",
        "AssertionError",
    ),
    Bug(
        "a_claim_stays_when_its_jobs_have_ended",
        (Edit("refresh_running.sql", "r.claim = l.claim AND l.seqs IS NULL", "false"),),
        f"{_WALKS}::test_a_claim_moves_on_with_its_leases_and_goes_with_its_jobs",
        ("AssertionError", "TimeoutError"),
    ),
    Bug(
        "claims_of_jobs_with_keys_stay_until_their_leases_end",
        (
            Edit(
                "settle_and_claim",
                "turn(PlainCompletions(), request, over, may_tell",
                "turn(PlainCompletions(), request, may_tell",
            ),
        ),
        f"{_WALKS}::test_claims_whose_jobs_have_ended_go_with_the_turns_of_their_worker[keyed]",
        "assert 1",
    ),
    Bug(
        "a_claim_goes_with_the_end_of_an_older_claim_of_its_job",
        (
            Edit(
                "RunningClaims.add",
                "(c.job.id, c.job.claim_version)",
                "(c.job.id, c.job.claim_version - 1)",
            ),
        ),
        f"{_WALKS}::test_a_job_that_is_given_back_and_claimed_in_one_turn_is_in_its_new_claim",
        "assert",
    ),
    Bug(
        "a_running_job_in_no_claim_is_lost",
        (Edit("adopt.sql", "HAVING COUNT(*) > 0", "HAVING false"),),
        f"{_WALKS}::test_a_running_job_in_no_claim_is_taken_back_all_the_same",
        "AssertionError",
    ),
    Bug(
        "completed_jobs_behind_a_page_that_waits_are_kept_for_ever",
        (Edit("prune_completed", "return removed, ends[0][0] if ends else 0", "return removed, 0"),),
        f"{_WALKS}::test_completed_jobs_behind_many_that_wait_are_removed",
        "AssertionError",
    ),
    Bug(
        "a_sweep_reads_the_backlog_of_a_key",
        (
            Edit(
                "forget_keys.sql",
                "(SELECT l.seq FROM euterpe_key_line AS l WHERE l.key = k.name LIMIT 1) IS NULL",
                "NOT EXISTS (SELECT 1 FROM euterpe_key_line AS l WHERE l.key = k.name)",
            ),
        ),
        "tests/walks/test_backlogs.py::test_a_million_jobs_that_wait_cost_live_traffic_nothing",
        "forget_keys",
    ),
    Bug(
        "a_worker_asks_for_nothing_ahead_behind_a_full_key",
        (
            Edit(
                "ClaimPlan.brought",
                " or (self._brought_ahead and claims[-1].job.concurrency_key is not None)",
                "",
            ),
        ),
        "tests/worker_units/test_lanes.py::test_a_claim_that_ended_at_a_full_key_is_followed_by_one_ahead",
        "is True",
    ),
)
