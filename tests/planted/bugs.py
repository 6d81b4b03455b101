"""The bugs. Most of them are ones that other queues have had; each is small enough to slip through a review."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

FROZEN = "tests/faults/test_lost_workers.py::test_a_worker_that_was_frozen_past_its_lease_writes_nothing_when_it_wakes"
CLAIMS = "tests/faults/test_locked_rows.py::test_a_claim_takes_nothing_that_another_is_just_taking"
SWEEPS = "tests/faults/test_sweeps.py::test_eight_sweepers_promote_reclaim_and_bury_each_job_once"
KEYS = (
    "tests/faults/test_idempotent_submits.py::test_fifty_submits_with_one_key_make_one_job_and_fifty_identical_answers"
)
EVENTS = "tests/faults/test_events.py::test_a_move_whose_event_cannot_be_stored_did_not_happen"
POISON = "tests/outbox/test_dispatcher.py::test_an_event_that_loses_its_dispatcher_every_time_ends_after_its_attempts"
KILLED = (
    "tests/faults/test_lost_workers.py::test_the_jobs_of_a_killed_worker_run_again_within_lease_and_sweep_and_a_second"
)
PLAIN_SUBMIT = "tests/faults/test_ambiguous_commits.py::test_a_plain_submit_is_stored_exactly_once"
SETTLE_AGAIN = (
    "tests/faults/test_ambiguous_commits.py::test_a_settlement_whose_answer_was_lost_is_raised_and_can_be_repeated"
)
SECOND_INSERT = (
    "tests/faults/test_ambiguous_commits.py"
    "::test_a_plain_submit_that_the_server_still_works_on_is_not_stored_a_second_time"
)
STRANDED = "tests/conformance/test_dependency_ends.py::test_no_path_to_an_end_strands_a_dependent"
RELEASES = "tests/conformance/test_settling.py::test_a_job_is_refunded_twenty_times_and_pays_from_then_on"
CLOCKS = (
    "tests/faults/test_clocks.py"
    "::test_a_process_ten_minutes_off_leases_promotes_and_reclaims_by_the_clock_of_the_database"
)
TENANTS = "tests/faults/test_concurrency_keys.py::test_a_key_at_its_limit_does_not_hide_the_jobs_behind_it"
FULL_DISK = (
    "tests/faults/test_sqlite_outages.py::test_a_full_disk_refuses_whole_writes_and_works_again_when_there_is_space"
)
TURNS = "tests/server/test_worker_turns.py::test_another_report_on_a_closed_attempt_is_refused"
STRANGERS = "tests/server/test_worker_turns.py::test_the_tokens_of_one_claim_are_each_others_strangers"
SQLITE_PLANS = "tests/plans/test_sqlite_plans.py::test_every_hot_statement_goes_by_its_index"
KEPT_PLANS = (
    "tests/plans/test_postgres_plans.py::test_plans_that_were_kept_from_when_the_tables_were_small_still_go_by_index"
)

JOINED = "tests/worker_units/test_joining_a_commit.py::test_what_joined_and_is_refused_takes_nothing_along"
LASTING = "tests/worker_units/test_small_keeper.py::test_a_lease_that_lasts_makes_it_begin"
CLOSING = "tests/worker_units/test_connections.py::test_closing_waits_for_those_in_use"
THE_SAME = "tests/conformance/test_submitting.py::test_however_it_was_submitted_a_job_is_stored_the_same"

BUGS = (
    Bug(
        "what_joins_a_commit_has_no_savepoint",
        (
            Edit(
                "GroupCommitEngine._commit_together",
                "self._run(session, ticket, alone=False)",
                "self._run(session, ticket, alone=True)",
            ),
        ),
        JOINED,
        ("assert set() == {'first'}", "cannot commit - no transaction is active"),
    ),
    Bug(
        "who_is_left_for_the_next_commit_is_forgotten_at_the_end",
        (Edit("GroupCommitEngine._write_loop", "while later or not stop:", "while not stop:"),),
        JOINED.partition("::")[0] + "::test_who_is_left_for_the_next_commit_is_answered_before_the_end",
        "TimeoutError",
    ),
    Bug(
        "the_lease_keeper_begins_too_late",
        (Edit("LASTING", "LASTING: Final = 1 / 6", "LASTING: Final = 1 / 2"),),
        LASTING,
        "a sixth of a minute is ten seconds",
    ),
    Bug(
        "a_store_closes_without_those_in_use",
        (
            Edit(
                "Connections.close",
                "await self._free.acquire()\n        self._is_closed",
                "pass\n        self._is_closed",
            ),
        ),
        CLOSING,
        "assert not",
    ),
    Bug(
        "a_batch_of_one_kind_forgets_its_tags",
        (Edit("sqlite/insert_uniform.sql", ":tags", "NULL"),),
        f"{THE_SAME}[sqlite-without a key-0]",
        "assert others == [first, first]",
    ),
    Bug(
        "the_fence_forgets_the_version_on_sqlite",
        (
            Edit("complete.sql", "AND j.claim_version = i.claim_version AND", "AND"),
            Edit("complete_uniform.sql", "AND j.claim_version = :claim_version AND", "AND"),
            Edit("completing.sql", "WHERE j.claim_version = i.claim_version AND", "WHERE"),
            Edit("completing_uniform.sql", "AND j.claim_version = :claim_version AND", "AND"),
        ),
        f"{FROZEN}[sqlite]",
        "a refused write left something behind",
    ),
    Bug(
        "the_fence_forgets_the_version_on_postgres",
        (
            Edit("settle_completed.sql", "AND j.claim_version = i.claim_version AND", "AND"),
            Edit(
                "settle_completed.sql",
                "WHERE w.claim_version = i.claim_version AND",
                "WHERE",
            ),
        ),
        f"{FROZEN}[postgres]",
        "a refused write left something behind",
    ),
    Bug(
        "the_fence_of_a_turn_forgets_the_version",
        (Edit("settled.sql", "j.claim_version = i.claim_version AND ", ""),),
        "tests/conformance/test_turns.py::test_a_stale_completion_in_a_turn_bounces_and_the_others_count[postgres]",
        "[True, True] == [False, True]",
    ),
    Bug(
        "the_fence_of_a_batch_forgets_the_version",
        (Edit("complete.sql", "AND j.claim_version = i.claim_version AND", "AND"),),
        "tests/conformance/test_turns.py::test_a_stale_completion_in_a_turn_bounces_and_the_others_count[sqlite]",
        "[True, True] == [False, True]",
    ),
    Bug(
        "a_turn_takes_jobs_with_a_key_unseen",
        (
            Edit(
                "enter.sql",
                "FROM entering AS j WHERE j.state = 'scheduled' AND j.concurrency_key IS NULL) AS e",
                "FROM entering AS j WHERE j.state = 'scheduled') AS e",
            ),
        ),
        "tests/conformance/test_turns.py"
        "::test_a_turn_holds_keys_to_their_limit_and_takes_what_stands_behind_them[postgres]",
        ("Extra items in the left set", "AssertionError"),
    ),
    Bug(
        "an_ended_attempt_can_be_ended_again",
        (
            Edit("settle_completed.sql", " AND j.lease_expires_at IS NOT NULL\n", "\n"),
            Edit("settle_completed.sql", " AND w.lease_expires_at IS NOT NULL\n", "\n"),
        ),
        f"{SETTLE_AGAIN}[after]",
        "moved from completed to completed",
    ),
    Bug(
        "a_heartbeat_ignores_the_version",
        (Edit("sqlite/heartbeat.sql", "AND j.claim_version = :claim_version AND", "AND"),),
        f"{FROZEN}[sqlite]",
        "a refused write left something behind",
    ),
    Bug(
        "two_claimers_may_take_the_same_row",
        (
            Edit(
                "postgres/front.sql",
                "    FOR UPDATE OF r SKIP LOCKED\n",
                "",
            ),
            Edit("postgres/front.sql", "({{is_long}} OR NOT {{is_held}})", "true"),
            Edit("taken_rows.sql", " AND j.state = 'scheduled'", ""),
        ),
        CLAIMS,
        "jobs were given to more than one",
    ),
    Bug(
        "the_sweep_promotes_whatever_has_a_time",
        (
            Edit(
                "postgres/promote_due.sql",
                "WHERE listed IN ('delayed', 'retrying') AND run_at",
                "WHERE run_at",
            ),
        ),
        f"{SWEEPS}[postgres]",
        "violates check constraint",
    ),
    Bug(
        "the_sweep_takes_leases_that_still_hold",
        (
            Edit("postgres/expired_leases.sql", " WHERE r.expires_at < {{now}}", ""),
            Edit("postgres/expired_leases.sql", "  AND j.lease_expires_at < {{now}}\n", ""),
        ),
        f"{CLOCKS}[slow]",
        "its sweep went by a wrong clock",
    ),
    Bug(
        "a_transaction_starts_as_a_reader",
        (Edit("ApswSession._begin", '"BEGIN IMMEDIATE"', '"BEGIN DEFERRED"'),),
        JOINED.partition("::")[0] + "::test_whoever_reads_first_is_a_writer_from_its_begin",
        "['wrote in between'] == ['kept out']",
    ),
    Bug(
        "the_event_comes_in_a_second_transaction",
        (
            Edit(
                "claim",
                "    if any(job.callback_url is not None for job in jobs):\n        yield from insert_events(jobs)\n",
                "",
            ),
            Edit(
                "SqlStore.claim",
                "        return (await self.exchange([], request))[1]\n",
                "        claims = (await self.exchange([], request))[1]\n"
                "        from euterpe.stores.sql.jobs.effects import insert_events\n"
                "        await self.engine.write(lambda: insert_events([claim.job for claim in claims]))\n"
                "        return claims\n",
            ),
        ),
        f"{EVENTS}[sqlite-claim]",
        "the transition was committed without its event",
    ),
    Bug(
        "an_event_that_kills_its_dispatchers_is_sent_for_ever",
        (Edit("DeliveryPolicy.of_spent", "if event.attempt_count <= self._max_attempts:", "if event.attempt_count:"),),
        f"{POISON}[sqlite]",
        "'completed'} == {",
    ),
    Bug(
        "a_cancelled_job_strands_its_dependents",
        (
            Edit(
                "end_waiting",
                "        fingerprint=[s.fingerprint for _, s in pairs],\n    )\n    yield from apply_effects(rows)\n",
                "        fingerprint=[s.fingerprint for _, s in pairs],\n    )\n",
            ),
        ),
        f"{STRANDED}[sqlite-cancelled_while_waiting]",
        "[<State.PENDING: 'pending'>] ==",
    ),
    Bug(
        "a_dependent_goes_with_the_first_of_its_dependencies",
        (
            Edit(
                "effects.py:_plan",
                "left = 0 if kind is Dependency.AFTER_ANY else pending - len(ended_ids)",
                "left = 0",
            ),
        ),
        "tests/conformance/test_dependencies.py::test_a_job_waits_until_all_it_depends_on_is_completed[sqlite]",
        "<State.SCHEDULED: 'scheduled'> != <State.PENDING: 'pending'>",
    ),
    Bug(
        "the_key_is_taken_after_the_job_is_stored",
        (
            Edit(
                "submitting/submit.py:submit",
                "        yield from _take_keys({i: claims[i] for i in now}, answers, replays)\n",
                "",
            ),
            Edit(
                "submitting/submit.py:submit",
                "        yield from _store(fresh, units, claims, answers, replays, may_hold=may_hold)\n",
                "        yield from _store(fresh, units, claims, answers, replays, may_hold=may_hold)\n"
                "        yield from _take_keys({i: claims[i] for i in now}, answers, replays)\n",
            ),
        ),
        f"{KEYS}[postgres]",
        ("the answers differ", "Input data was truncated"),
    ),
    Bug(
        "an_attempt_is_charged_when_it_ends",
        (
            Edit(
                "take.sql",
                "attempt_count = j.attempt_count + 1",
                "attempt_count = j.attempt_count",
            ),
            Edit(
                "sqlite/settle.sql",
                "attempt_count = j.attempt_count - :refund",
                "attempt_count = j.attempt_count + 1 - :refund",
            ),
        ),
        f"{KILLED}[sqlite]",
        "counts 1 attempts, its history has 2",
    ),
    Bug(
        "a_release_is_refunded_for_ever",
        (Edit("_settle_release", "if job.release_count >= MAX_RELEASES:", "if False:"),),
        f"{RELEASES}[sqlite]",
        "<State.SCHEDULED: 'scheduled'> is <State.RETRYING: 'retrying'>",
    ),
    Bug(
        "leases_go_by_the_clock_of_the_process",
        (
            Edit(
                "PostgresEngine._bind",
                "self.clock() if self.clock is not None else None",
                "self.clock() if self.clock is not None else time.time_ns() // 1000",
            ),
        ),
        f"{CLOCKS}[fast]",
        "stamped by the clock of the process",
    ),
    Bug(
        "an_unknown_commit_is_taken_for_a_failed_one",
        (
            Edit(
                "UnitCommits._commit",
                "except CommitUnknown as unknown:\n            answers, notice = await",
                "except ZeroDivisionError as unknown:\n            answers, notice = await",
            ),
        ),
        f"{PLAIN_SUBMIT}[after]",
        "CommitUnknown",
    ),
    Bug(
        "a_lost_insert_is_not_waited_for",
        (
            Edit(
                "CONFLICTS",
                'frozenset({"40001", "40P01", UNIQUE})',
                'frozenset({"40001", "40P01"})',
            ),
        ),
        SECOND_INSERT,
        "duplicate key",
    ),
    Bug(
        "an_end_frees_nobody_who_waits_for_its_key",
        (
            Edit(
                "apply_effects",
                "freed = {key: count if ran else 0 for key, count in keys.items()}",
                "freed: dict[str, int] = {}",
            ),
        ),
        f"{TENANTS}[postgres]",
        "nobody took the free place",
    ),
    Bug(
        "any_report_counts_as_the_replay_of_a_closed_attempt",
        (Edit("first_answer", " or bytes(closed[0][1]) != outcome_hash:", ":"),),
        f"{TURNS}[sqlite]",
        "assert [True, True, True] == [True, False, True]",
    ),
    Bug(
        "a_completion_over_http_is_fenced_by_its_version_alone",
        (Edit("HandedOut.find", "return claim if is_own else None", "return claim"),),
        f"{STRANGERS}[postgres]",
        "assert [True] == [False]",
    ),
    Bug(
        "a_full_disk_is_an_error_of_the_driver",
        (
            Edit(
                "GroupCommitEngine._fail",
                "reason = library.explain(self.path, error, committing=committing) if known else error",
                "reason = error",
            ),
        ),
        f"{FULL_DISK}[pages]",
        "FullError",
    ),
    Bug(
        "a_sweep_reads_all_that_wait",
        (Edit("sqlite/promote_due.sql", " {{by inbox_jobs_due}}", ""),),
        f"{SQLITE_PLANS}[large]",
        "promote_due",
    ),
    Bug(
        "plans_from_when_the_tables_were_small_are_kept",
        (
            Edit(
                "SETTINGS",
                '    "enable_seqscan": "off",\n'
                '    "enable_hashjoin": "off",\n'
                '    "enable_mergejoin": "off",\n'
                '    "enable_bitmapscan": "off",\n',
                "",
            ),
        ),
        KEPT_PLANS,
        "a kept plan reads a whole table",
    ),
    Bug(
        "an_index_mentions_what_heartbeats_change",
        (
            Edit(
                "postgres/0001_baseline.sql",
                "CREATE INDEX inbox_jobs_due ON",
                "CREATE INDEX inbox_jobs_lease ON inbox_jobs (lease_expires_at);\nCREATE INDEX inbox_jobs_due ON",
            ),
        ),
        "tests/plans/test_hot_updates.py::test_heartbeats_are_hot_updates",
        "an index mentions what heartbeats change",
    ),
)
