"""Bugs in what is locked, what is waited for, and what is counted by concurrency keys."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_OPEN = "tests/caller/test_open_transactions.py"
_LOCKED = "tests/faults/test_locked_rows.py"
_KEYS = "tests/conformance/test_concurrency_keys.py"

_ANY_TWO = (
    "tests/interleavings/test_interleavings.py"
    "::test_any_two_programs_keep_every_promise_in_any_order_of_their_statements"
)

_DECLARED = ("-- locks: skips", "-- locks: waits")
"""What a text says of itself, which is checked."""

LOCK_BUGS = (
    Bug(
        "a_lost_job_is_reclaimed_without_its_lock",
        (
            Edit("postgres/expired_leases.sql", " {{skip_locked}}", ""),
            Edit("postgres/expired_leases.sql", "-- locks: skips", "-- locks: none"),
        ),
        f"{_ANY_TWO}[heartbeat]",
        "a lease was renewed and reclaimed",
    ),
    Bug(
        "a_key_is_expired_without_its_lock",
        (
            Edit("expire_keys.sql", " {{skip_locked}}", ""),
            Edit("expire_keys.sql", *_DECLARED),
        ),
        f"{_ANY_TWO}[submit_with_old_key]",
        "a job has lost the key that it renewed",
    ),
    Bug(
        "a_dependency_is_read_without_its_lock",
        (Edit("get_jobs_for_update.sql", " {{lock j}}", ""),),
        f"{_ANY_TWO}[submit_after]",
        ("stranded", "nobody would tell it", "waits for"),
    ),
    Bug(
        "a_heartbeat_waits_for_every_row",
        (
            Edit("postgres/heartbeat.sql", " SKIP LOCKED", ""),
            Edit("postgres/heartbeat.sql", *_DECLARED),
        ),
        f"{_OPEN}::test_a_heartbeat_renews_all_leases_but_the_one_that_somebody_holds",
        ("TimeoutError", "LockNotAvailableError"),
    ),
    Bug(
        "a_lease_that_was_skipped_counts_as_lost",
        (Edit("postgres/heartbeat.sql", "WHERE r.id = i.id)", "WHERE r.id = i.id) AND false"),),
        f"{_OPEN}::test_a_heartbeat_renews_all_leases_but_the_one_that_somebody_holds",
        "At index 1 diff: False != True",
    ),
    Bug(
        "a_settle_waits_for_every_row",
        (
            Edit("settle_completed.sql", " SKIP LOCKED", ""),
            Edit("settle_completed.sql", *_DECLARED),
        ),
        f"{_OPEN}::test_a_turn_settles_and_claims_beside_a_row_that_somebody_holds[with dependents]",
        ("TimeoutError", "due to lock timeout"),
    ),
    Bug(
        "a_turn_waits_for_every_row",
        (Edit("_settling", '"wait_ms": LOCK_WAIT_MS,', '"wait_ms": 60_000,'),),
        f"{_OPEN}::test_a_turn_settles_and_claims_beside_a_row_that_somebody_holds[plain]",
        ("TimeoutError", "due to lock timeout"),
    ),
    Bug(
        "a_lock_timeout_of_a_turn_stays_in_its_session",
        (Edit("settled.sql", "AS text), true) <> ''", "AS text), false) <> ''"),),
        f"{_OPEN}::test_a_turn_leaves_no_lock_timeout_behind",
        "'50ms' == '7s'",
    ),
    Bug(
        "every_turn_waits_for_rows_that_are_held_for_long",
        (Edit("AROUND_S", "AROUND_S: Final = 1.0", "AROUND_S: Final = 0.0"),),
        f"{_OPEN}::test_while_rows_are_held_a_turn_does_not_wait_for_them_again_and_again",
        "AssertionError",
    ),
    Bug(
        "held_rows_are_waited_for_one_by_one",
        (
            Edit(
                "PostgresExchange._settle_held",
                "await self._settle_when_free([settlements[i] for i in held], left_ms)",
                "[y for i in held for y in await self._settle_when_free([settlements[i]], 1000)]",
            ),
        ),
        f"{_OPEN}::test_many_held_rows_are_waited_for_together",
        "TimeoutError",
    ),
    Bug(
        "the_first_held_row_keeps_the_others_from_being_settled",
        (
            Edit(
                "PostgresExchange._settle_when_free",
                "            with suppress(LockTimeout):\n                return",
                "            if True:\n                return",
            ),
        ),
        f"{_OPEN}::test_a_row_that_is_held_for_long_keeps_no_other_held_row_from_being_settled",
        "[True, False, True, False] == [True, False, False, False]",
    ),
    Bug(
        "a_settlement_whose_row_is_held_is_stale",
        (Edit("settle_or_confirm", "if left and family", "if not left and family"),),
        f"{_OPEN}::test_a_turn_settles_and_claims_beside_a_row_that_somebody_holds[plain]",
        "[False, False, False, False] == [False, False, True, False]",
    ),
    Bug(
        "a_callers_transaction_holds_what_it_depends_on",
        (Edit("submit_joined", 'may_hold = family == "sqlite"', "may_hold = True"),),
        f"{_OPEN}::test_a_transaction_open_past_several_leases_costs_nobody_a_lease[asyncpg-commit]",
        ("renewed=False", "TimeoutError", "assert False"),
    ),
    Bug(
        "nobody_watches_the_dependencies_of_a_callers_job",
        (
            Edit(
                "SqlSweeps.recover",
                "            self.watch_dependencies,\n",
                "            self.unpark_idle,\n",
            ),
        ),
        f"{_OPEN}::test_a_fan_in_waits_for_the_child_that_was_spawned_while_the_transaction_was_open",
        "is <State.SCHEDULED: 'scheduled'>",
    ),
    Bug(
        "a_key_is_expired_though_it_was_just_renewed",
        (
            Edit("expire_keys.sql", " {{skip_locked}}", ""),
            Edit("expire_keys.sql", *_DECLARED),
        ),
        f"{_LOCKED}::test_a_key_that_a_submit_is_just_renewing_is_not_expired",
        "False) == (",
    ),
    Bug(
        "an_event_is_pruned_though_it_was_just_redelivered",
        (
            Edit("prune_events.sql", " {{skip_locked}}", ""),
            Edit("prune_events.sql", *_DECLARED),
        ),
        f"{_LOCKED}::test_an_event_that_is_just_redelivered_is_not_pruned",
        "JobNotFound",
    ),
    Bug(
        "a_submission_may_have_any_number_of_edges",
        (Edit("MAX_EDGES", "MAX_EDGES: Final = 20_000", "MAX_EDGES: Final = 2_000_000"),),
        "tests/conformance/test_graphs.py::test_a_submission_may_have_twenty_thousand_dependencies_and_no_more[sqlite]",
        "DID NOT RAISE",
    ),
    Bug(
        "requesters_share_their_concurrency_keys",
        (
            Edit("limit_key", 'return f"{requester_id}\\x1f{concurrency_key}"', "return concurrency_key"),
            Edit("postgres/limit_key.sql", "j.requester_id || chr(31) || ", ""),
        ),
        f"{_KEYS}::test_requesters_do_not_share_a_key[postgres]",
        "AssertionError",
    ),
    Bug(
        "a_worker_drops_what_it_cannot_settle_because_somebody_holds_the_row",
        (Edit("WorkerLoop._after_settle", "if any(verdict.locked for verdict in verdicts):", "if False:"),),
        "tests/worker/test_held_rows.py"
        "::test_a_worker_settles_and_renews_the_neighbours_of_a_held_row_and_that_one_when_it_is_let_go",
        ("assert 2 == 1", "TimeoutError", "Timeout"),
    ),
    Bug(
        "a_report_about_a_held_row_is_refused_for_good",
        (Edit("WorkerProtocolStore._settle", "        if LOCKED in states:\n", "        if False:\n"),),
        "tests/server/test_held_rows.py"
        "::test_a_report_about_a_held_row_is_answered_503_and_accepted_when_it_is_repeated",
        "assert 409 == 503",
    ),
)
