"""Bugs of the worker: hostile handlers, lease keepers, spawns, threads at shutdown."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

HOSTILE = "tests/worker/test_hostile_handlers.py"
KEEPER = "tests/worker/test_one_keeper.py"
SPAWNS = "tests/worker/test_spawns.py"
TELLING = "tests/worker/test_telling_of_failures.py"
SPANS = "tests/worker/test_spans.py"
REQUESTS = "tests/server/test_request_ids.py::test_a_failed_request_is_logged_under_the_name_that_its_answer_carries"
STOPPING = "tests/worker/test_stopping.py"

WORKER_BUGS = (
    Bug(
        "an_outage_of_a_few_tries_makes_a_worker_forget_its_lost_claims",
        (Edit("LostClaims.look", "        except StoreUnavailable:\n", "        except TimeoutError:\n"),),
        "tests/worker/test_lost_claims.py::test_a_store_that_is_away_is_asked_again_for_as_long_as_a_lease_lasts",
        "a failover takes longer than a few tries",
    ),
    Bug(
        "a_claim_that_is_too_large_to_be_answered_is_made_again_and_again",
        (Edit("ClaimPlan.got_no_answer", "self._most = max(1, request.total // 2)", "pass"),),
        "tests/worker/test_lost_claims.py"
        "::test_jobs_whose_claim_is_too_large_to_be_answered_in_time_are_claimed_by_and_by[sqlite]",
        "waited",
    ),
    Bug(
        "a_paused_cron_ticks_when_the_database_is_away_at_the_start",
        (Edit("keep_time", "    is_read = store is None\n", "    is_read = True\n"),),
        "tests/queue/test_crons.py::test_a_paused_cron_stays_so_when_the_database_is_away_at_a_workers_start[sqlite]",
        "AssertionError",
    ),
    Bug(
        "two_lanes_look_for_lost_claims_at_once",
        (Edit("WorkerLoop._lane", "not is_claiming and not self._lost_claims.is_looking", "not is_claiming"),),
        "tests/worker/test_lost_claims.py::test_what_a_lost_answer_brought_runs_and_what_runs_already_goes_on[sqlite]",
        "the lanes look one after the other",
    ),
    Bug(
        "the_jobs_of_a_lost_claim_wait_for_the_end_of_their_leases",
        (Edit("WorkerLoop._exchange", "                self._lost_claims.suspect()\n", ""),),
        "tests/worker/test_lost_claims.py::test_what_a_lost_answer_brought_runs_and_what_runs_already_goes_on[sqlite]",
        "the jobs of the lost claim to begin",
    ),
    Bug(
        "what_was_claimed_for_http_workers_is_lost_with_its_answer",
        (Edit("WorkerProtocolStore.claim_for", "            await if_lost.give_back()\n", ""),),
        "tests/faults/test_ambiguous_commits.py::"
        "test_what_was_claimed_for_http_workers_is_given_back_when_the_answer_was_lost[plain-after]",
        "not enough values to unpack",
    ),
    Bug(
        "a_control_plane_killed_before_its_answer_keeps_what_it_claimed",
        (Edit("RemoteSweeps.release_unbegun", "        await self._exchange.report_held(worker_id, begun)\n", ""),),
        "tests/remote/test_lost_claims.py"
        "::test_a_control_plane_killed_before_its_answer_costs_no_attempt_and_no_lease[sqlite]",
        "the job of the lost claim to begin",
    ),
    Bug(
        "what_an_http_worker_runs_is_given_back_with_a_lost_claim",
        (
            Edit(
                "WorkerRoutes.exchange",
                "release_unbegun(body.worker_id, held)",
                "release_unbegun(body.worker_id, ())",
            ),
        ),
        "tests/server/test_worker_turns.py::test_what_a_worker_does_not_hold_goes_back_uncharged[sqlite]",
        "assert [(",
    ),
    Bug(
        "what_a_worker_runs_is_given_back_with_a_lost_claim",
        (Edit("WorkerLoop.__init__", "self._attempts.claims_held, lease_s)", "set, lease_s)"),),
        "tests/worker/test_lost_claims.py::test_what_a_lost_answer_brought_runs_and_what_runs_already_goes_on[sqlite]",
        "assert [0, 0, 1, 2] == [0, 1, 2]",
    ),
    Bug(
        "a_panic_of_a_handler_leaks_its_slot",
        (
            Edit(
                "AttemptRun.run",
                "except BaseException as error:  # noqa: BLE001  # a handler may raise",
                "except Exception as error:  # noqa: BLE001  # a handler may raise",
            ),
        ),
        f"{HOSTILE}::test_a_panic_and_an_interrupt_free_their_slots_on_every_engine[sqlite-async]",
        ("TimeoutError", "Timeout", "PanicException"),
    ),
    Bug(
        "describing_a_failure_may_raise",
        (
            Edit(
                "failure_of",
                "except BaseException as worse:",
                "except ZeroDivisionError as worse:",
            ),
        ),
        "tests/worker_units/test_describing.py::test_every_exception_has_a_code_and_a_message",
        "describing it raised PanicException",
    ),
    Bug(
        "both_lanes_start_a_keeper",
        (
            Edit("LeaseKeeper.ensure_running", "if self._starting is None:", "if True:"),
            Edit("LeaseKeeper.ensure_running", "if time.monotonic() - self._tried_at < RESTART_S:", "if False:"),
        ),
        f"{KEEPER}::test_two_who_ask_for_the_keeper_at_once_get_one",
        "assert 2 == 1",
    ),
    Bug(
        "a_keeper_that_cannot_be_started_is_not_replaced",
        (Edit("LeaseKeeper._start", "no interpreter\n            self._on_loop.begin()", "no interpreter"),),
        f"{KEEPER}::test_without_a_descriptor_for_a_keeper_leases_are_renewed_and_timeouts_strike_and_it_is_tried_again",
        ("the lease is renewed without a keeper", "Timeout"),
    ),
    Bug(
        "the_sealing_keys_are_inherited",
        (
            Edit(
                "SEALING_KEYS",
                'frozenset({"EUTERPE_KEKS", "EUTERPE_ACTIVE_KEK"})',
                "frozenset[str]()",
            ),
        ),
        f"{KEEPER}::test_neither_the_keeper_nor_a_handlers_process_sees_the_sealing_keys",
        "EUTERPE_KEKS",
    ),
    Bug(
        "a_settle_overtakes_a_spawn",
        (Edit("WorkerReporter.delivered", "else await spawns.over()", "else None"),),
        f"{SPAWNS}::test_a_spawn_that_nobody_awaits_is_stored_before_its_parent_is_settled[sqlite]",
        "assert 0 == (1 * 5)",
    ),
    Bug(
        "a_threads_job_is_released_while_it_runs",
        (
            Edit(
                "AttemptRun.interrupt",
                "first and why is HandlerInterruption.SHUTDOWN and mode",
                "False and why is HandlerInterruption.SHUTDOWN and mode",
            ),
        ),
        f"{STOPPING}::test_the_job_of_a_thread_that_does_not_stop_is_nobody_elses_while_its_process_lives[sqlite]",
        "assert [] == [",
    ),
    Bug(
        "a_dead_letter_leaves_no_line",
        (Edit("WorkerLoop._after_settle", "report_end(f, verdict, attempt.span_keys)", "pass"),),
        f"{TELLING}::test_a_failed_attempt_is_a_warning_with_the_next_try_and_the_dead_letter_an_error[sqlite]",
        "2 lines about the job",
    ),
    Bug(
        "the_namespace_is_not_logged",
        (Edit("AllowList.filter", "{**self._everywhere, **current_keys(), **fields}", "{**current_keys(), **fields}"),),
        REQUESTS,
        "KeyError: 'namespace'",
    ),
    Bug(
        "a_log_call_of_ours_is_refused_by_our_gate",
        (Edit("RunningAttempts._check_lingering", "log.error(message, held)", 'log.error("held by %s", held)'),),
        "tests/observe/test_log_calls.py::test_every_log_call_of_ours_passes_our_gate",
        "no number",
    ),
    Bug(
        "the_header_traceparent_is_ignored",
        (
            Edit(
                "JobRoutes.submit",
                "with_parent(submission, traceparent_of(request))",
                "with_parent(submission, None)",
            ),
        ),
        f"{SPANS}::test_a_submission_over_http_is_continued_by_the_span_of_its_attempt_also_in_an_http_worker[header]",
        "AssertionError",
    ),
    Bug(
        "a_failed_attempt_is_a_span_that_completed",
        (
            Edit(
                "outcome_name",
                'return "released" if failure.unfit else str(failure.category)',
                'return "completed"',
            ),
        ),
        f"{SPANS}::test_the_outcome_of_a_span_is_the_word_that_its_attempt_is_closed_with",
        "Differing items",
    ),
    Bug(
        "a_control_plane_traces_what_its_worker_traces",
        (Edit("_expect_own_spans", "        store.expect_own_spans()", "        pass"),),
        f"{SPANS}::test_a_control_plane_traces_the_attempts_of_workers_that_do_not_trace_themselves",
        "assert 4 == 3",
    ),
)
