"""Bugs in what submit accepts and in how rows are met that cannot be processed."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_ROWS = "tests/conformance/test_unprocessable_rows.py"
_BACKOFFS = "tests/conformance/test_custom_backoffs.py"

ROW_BUGS = (
    Bug(
        "submit_takes_any_callback_that_begins_like_a_url",
        (Edit("check_callback", "        parse_http_url(str(url))\n", "        str(url)\n"),),
        "tests/model/test_http_url.py::test_a_malformed_callback_is_refused_at_submit_by_the_name_of_its_field",
        "DID NOT RAISE",
    ),
    Bug(
        "a_claim_hands_out_a_row_that_nobody_can_read",
        (
            Edit(
                "without_unreadable",
                "if (columns := unreadable_columns(c.job))} if suspects",
                "if (columns := unreadable_columns(c.job))} if not suspects",
            ),
        ),
        f"{_ROWS}::test_a_claim_ends_the_row_it_cannot_read_and_takes_the_others",
        "a short answer would say that the queue is empty",
    ),
    Bug(
        "a_payload_that_is_no_json_spoils_the_answer_over_http",
        (Edit("WorkerProtocolStore.claim_for", ", sent_as_json=True)", ")"),),
        f"{_ROWS}::test_a_payload_that_is_no_json_does_not_spoil_an_answer_over_http[sqlite-claim-nothing]",
        "",
    ),
    Bug(
        "a_gap_in_a_shared_claim_moves_the_jobs_behind_it_to_other_workers",
        (
            Edit(
                "_Group._distribute",
                "        for claim in claims:\n            if own_places := places[claim.job.worker_id]:\n",
                "        for waiter, claim in zip(slots, claims, strict=False):\n            if own_places := [waiter]:\n",
            ),
        ),
        f"{_ROWS}::test_a_gap_in_a_shared_claim_gives_no_job_to_another_worker",
        "assert [[(",
    ),
    Bug(
        "results_that_cannot_be_read_yet_cost_http_workers_an_attempt",
        (Edit("usable_claims", "        await _give_back(dependents, engine, reports)\n", ""),),
        "tests/conformance/test_results_flow.py"
        "::test_results_that_cannot_be_read_yet_cost_an_http_worker_no_attempt[sqlite]",
        "State.RUNNI",
    ),
    Bug(
        "one_unreadable_policy_stops_recovery",
        (
            Edit(
                "_settle_failure",
                "policy = job.retry\n    except UnprocessableRow as unreadable:\n",
                "policy = job.retry\n    except KeyError as unreadable:\n",
            ),
        ),
        f"{_ROWS}::test_every_sweep_goes_on_past_a_row_it_cannot_read",
        "UnprocessableRow",
    ),
    Bug(
        "unreadable_tags_stop_every_event_of_a_batch",
        (Edit("document.py:status_document", '"tags": tags_of(job)', '"tags": job.tags'),),
        f"{_ROWS}::test_a_settle_of_a_batch_is_not_stopped_by_a_row_that_was_spoilt_while_it_ran",
        "UnprocessableRow",
    ),
    Bug(
        "a_custom_backoff_that_raises_stops_recovery",
        (Edit("_usable", "except (Exception, SystemExit) as error:", "except KeyError as error:"),),
        f"{_BACKOFFS}::test_lost_jobs_are_recovered_beside_one_whose_backoff_is_of_no_use",
        "ZeroDivisionError",
    ),
    Bug(
        "a_keeper_follows_a_lease_of_microseconds",
        (Edit("renew_forever", ", SHORTEST_INTERVAL_S)", ", 0.0)"),),
        "tests/worker_units/test_beating.py::test_a_lease_of_a_microsecond_does_not_make_the_keeper_spin",
        "assert",
    ),
    Bug(
        "a_job_may_be_due_after_its_end",
        (Edit("plan_units", "            check_run_times(unit, now_us)\n", ""),),
        "tests/conformance/test_submitting.py"
        "::test_a_run_at_beyond_the_lifetime_is_refused_by_the_clock_of_the_database",
        "DID NOT RAISE",
    ),
    Bug(
        "a_job_completes_from_any_of_its_stages",
        (Edit("_walked_to_the_end", "job.current_stage != s.last_stage", "job.current_stage is None"),),
        "tests/conformance/test_advancing.py::test_a_job_with_stages_completes_from_the_last_only",
        "completed",
    ),
    Bug(
        "a_stage_may_be_passed_over",
        (Edit("check_advance", "    if ordinal > here + 1:\n", "    if ordinal > here + 9:\n"),),
        "tests/conformance/test_advancing.py::test_no_stage_may_be_passed_over",
        "DID NOT RAISE",
    ),
    Bug(
        "a_running_job_changes_its_priority",
        (Edit("changed", "job.state not in WAITING", "job.state is None"),),
        "tests/conformance/test_updating.py::test_the_priority_changes_only_while_the_job_waits",
        "DID NOT RAISE",
    ),
    Bug(
        "a_callback_that_came_while_the_job_ran_is_not_told",
        (
            Edit("complete.sql", " OR j.callback_url IS NOT NULL", ""),
            Edit("complete_uniform.sql", " OR j.callback_url IS NOT NULL", ""),
        ),
        "tests/conformance/test_updating.py::test_new_tags_are_found_and_a_new_callback_is_told",
        "assert",
    ),
    Bug(
        "a_callback_that_came_while_a_job_of_a_chain_ran_is_not_told",
        (Edit("complete_linked", "linked, Follows.RELEASES", "linked, Follows.ANYTHING"),),
        "tests/conformance/test_turns.py::test_a_callback_that_came_while_a_job_of_a_chain_ran_is_told[sqlite]",
        "assert [] ==",
    ),
    Bug(
        "a_stale_completion_in_a_turn_of_chains_releases_its_dependents",
        (
            Edit(
                "complete_linked",
                "    if not (yield from _complete(completions.linked, Follows.RELEASES)):\n        raise RowsSayMore\n",
                "    yield from _complete(completions.linked, Follows.RELEASES)\n",
            ),
        ),
        "tests/conformance/test_turns.py::test_a_stale_completion_in_a_turn_of_chains_releases_nothing[sqlite]",
        "assert [True",
    ),
    Bug(
        "dependents_that_came_while_a_job_of_a_chain_ran_are_stranded",
        (
            Edit(
                "complete_linked",
                "complete_simple(completions.plain)",
                "_complete(completions.plain, Follows.RELEASES)",
            ),
        ),
        "tests/conformance/test_turns.py::test_dependents_that_came_while_a_job_of_a_chain_ran_are_released[sqlite]",
        "AssertionError",
    ),
    Bug(
        "what_a_turn_releases_is_taken_over_the_limit_of_its_key_on_sqlite",
        (
            Edit("_first_over", "front.running + begun >= job.limit", "front.running + begun > job.limit"),
            Edit("line.sql", "(l.running + 1 >= n.concurrency_limit) IS NOT TRUE", "true"),
        ),
        "tests/conformance/test_turns.py::test_what_a_turn_releases_keeps_to_the_limit_of_its_key[sqlite]",
        "assert [",
    ),
    Bug(
        "what_a_claim_brings_lacks_one_of_the_jobs_it_waited_for",
        (Edit("kind_columns.sql", "COUNT(*) = 1", "COUNT(*) > 0"),),
        "tests/conformance/test_claiming.py"
        "::test_a_claim_brings_a_dependent_as_it_is_stored_with_what_it_waited_for[sqlite-3]",
        "AssertionError",
    ),
    Bug(
        "ids_begin_with_what_they_have_in_common",
        (
            Edit(
                "new_ids",
                "ids[place::37] = digits_of_all[digit::32]",
                "ids[place::37] = digits_of_all[digit::32] if digit > 7 else digits_of_all[:1] * count",
            ),
        ),
        "tests/conformance/test_submitting.py::test_the_system_gives_every_job_a_version_4_uuid",
        "the first bits are no clock",
    ),
    Bug(
        "a_search_by_tag_reads_the_tags_as_json",
        (
            Edit(
                "_tag_text",
                "    return msgspec.json.encode({tag[0]: tag[1]}).decode()[1:-1]\n",
                '    return f\'"{tag[0]}":"{tag[1]}"\'\n',
            ),
        ),
        "tests/conformance/test_whatever_submit_accepts.py::test_it_survives_or_is_refused_by_name[sqlite-80]",
        "assert",
    ),
    Bug(
        "a_changed_rate_waits_for_its_tokens_in_the_old_units",
        (
            Edit(
                "_set",
                "Rate(interval_us, burst).changed(rate, full_at, held_until, now)",
                "full_at",
            ),
        ),
        "tests/conformance/test_rates.py::test_a_changed_rate_keeps_its_tokens_and_refills_anew[sqlite]",
        "assert 0 == 1",
    ),
    Bug(
        "a_changed_rate_changes_a_retry_after",
        (Edit("Rate.changed", "since = max(now, held_until)", "since = now"),),
        "tests/conformance/test_rates.py::test_a_changed_rate_does_not_change_a_retry_after",
        "assert [",
    ),
)
