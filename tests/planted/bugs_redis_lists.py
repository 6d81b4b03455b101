"""Bugs of the Redis-list engine: late writers, rescues of the living, entries that vanish or are stored twice."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

SCRIPTS = "tests/redis_lists/test_scripts.py"
SHORT = "tests/redis_lists/test_short_scripts.py"
BAD_INPUT = "tests/redis_lists/test_bad_input.py"
PLACES = "tests/redis_lists/test_configured_places.py"

REDIS_LIST_BUGS = (
    Bug(
        "a_late_report_on_redis_lists_is_taken",
        (
            Edit(
                "turn.lua",
                "if job[1] ~= 'running' or job[2] ~= r.version then return r.lost",
                "if job[1] ~= 'running' then return r.lost",
            ),
        ),
        f"{SCRIPTS}::test_acts_on_a_version_that_is_over_change_nothing",
        "assert ['completed'] == ['']",
    ),
    Bug(
        "the_reaper_does_not_look_for_the_heartbeat_again",
        (Edit("turn.lua", "if r.lost ~= '' and redis.call('EXISTS'", "if r.lost == '?' and redis.call('EXISTS'"),),
        "tests/redis_lists/test_reaper.py::test_a_heartbeat_that_came_in_between_keeps_the_job",
        "assert 1 == 0",
    ),
    Bug(
        "a_submit_that_is_sent_twice_is_stored_twice",
        (Edit("submit_one.lua", "if there then return there end", ""),),
        f"{SHORT}::test_a_job_that_is_there_already_is_not_stored_again[alone]",
        "assert",
    ),
    Bug(
        "a_batch_that_is_sent_twice_is_stored_twice",
        (Edit("submit.lua", "if there[1] then return", "if there[1] == 0 then return"),),
        f"{SHORT}::test_a_job_that_is_there_already_is_not_stored_again[in a batch]",
        "assert",
    ),
    Bug(
        "a_job_alone_is_stored_beside_a_list_that_is_none",
        (
            Edit(
                "submit_one.lua",
                "type(redis.pcall('LPUSH', list, entry)) == 'table'",
                "not redis.pcall('LPUSH', list, entry)",
            ),
        ),
        f"{SHORT}::test_a_list_that_is_a_string_is_named_and_nothing_is_stored",
        "DID NOT RAISE",
    ),
    Bug(
        "a_waiting_worker_keeps_an_entry_that_is_not_for_it",
        (Edit("claim_one.lua", "  call('LMOVE', processing, list, 'LEFT', 'RIGHT')\n", ""),),
        f"{SHORT}::test_what_is_not_plain_is_claimed_by_the_whole_script",
        ("assert", "not enough values to unpack"),
    ),
    Bug(
        "a_waiting_worker_puts_an_entry_back_behind_the_others",
        (Edit("claim_one.lua", "list, 'LEFT', 'RIGHT')", "list, 'LEFT', 'LEFT')"),),
        f"{SHORT}::test_an_entry_that_a_waiting_worker_leaves_is_the_first_of_its_list_again",
        "assert [",
    ),
    Bug(
        "a_waiting_worker_looks_only_where_it_found_a_job_before",
        (Edit("claim_one.lua", "  first = first_list\nend", "end"),),
        f"{SHORT}::test_a_waiting_worker_finds_what_is_more_urgent_than_its_last_job",
        "assert [",
    ),
    Bug(
        "an_entry_that_is_no_job_holds_up_every_list",
        (Edit("turn.lua", "      is_stuck = true\n", ""),),
        f"{BAD_INPUT}::test_without_a_list_for_dead_letters_an_entry_that_is_no_job_stays_and_is_told",
        "the other lists are served",
    ),
    Bug(
        "a_waiting_worker_takes_a_second_attempt_for_the_first",
        (Edit("claim_one.lua", "job[2] ~= entry or job[8] or", "job[2] ~= entry or"),),
        f"{SHORT}::test_what_is_not_plain_is_claimed_by_the_whole_script",
        "assert (",
    ),
    Bug(
        "a_waiting_worker_does_not_mind_a_pause",
        (Edit("claim_one.lua", "call('EXISTS', paused) == 1 then", "call('EXISTS', paused) == 2 then"),),
        f"{SHORT}::test_a_waiting_worker_takes_nothing_that_is_not_for_it",
        "== []",
    ),
    Bug(
        "what_a_claim_may_not_begin_goes_back_in_another_order",
        (Edit("turn.lua", "for i = #line, gone + 1, -1 do", "for i = gone + 1, #line do"),),
        f"{BAD_INPUT}::test_a_long_line_is_claimed_from_its_front_in_order",
        "assert [",
    ),
    Bug(
        "a_redis_that_is_full_hands_out_what_it_cannot_take_back",
        (Edit("turn.lua", "if not is_known then redis.call('SADD'", "if is_known then redis.call('SADD'"),),
        f"{BAD_INPUT}::test_a_redis_that_is_full_or_read_only_refuses_whole_writes",
        "DID NOT RAISE",
    ),
    Bug(
        "an_entry_that_is_no_job_breaks_a_claim_in_two",
        (Edit("turn.lua", "if no_list(DEAD) then", "if false then"),),
        f"{BAD_INPUT}::test_without_a_list_for_dead_letters_an_entry_that_is_no_job_stays_and_is_told",
        "assert",
    ),
    Bug(
        "a_wait_takes_two_round_trips",
        (
            Edit(
                "ListExchange.claim_when_ready",
                "if answer is None:",
                "if answer is None or isinstance(answer, bytes):",
            ),
        ),
        f"{SHORT}::test_one_round_trip_claims_a_plain_job",
        "assert",
    ),
    Bug(
        "every_job_of_a_claim_is_a_write_of_its_own",
        (Edit("turn.lua", "{ stamp, states, packed(claims),", "{ stamp, states, claims,"),),
        f"{SHORT}::test_a_claim_is_answered_by_one_string",
        "assert",
    ),
    Bug(
        "the_entry_of_another_job_is_written",
        (Edit("Submitting._command_of", "self._commands.get(kind)", "next(iter(self._commands.values()), None)"),),
        "tests/redis_lists/test_entries.py::test_the_jobs_of_a_type_have_the_same_entries_however_many_came_before",
        "assert",
    ),
    Bug(
        "an_entry_that_is_no_job_vanishes",
        (Edit("turn.lua", "    redis.call('LPUSH', DEAD, entry)\n    tell_odd", "    tell_odd"),),
        f"{BAD_INPUT}::test_entries_that_are_no_jobs_become_dead_letters_and_the_others_run",
        "byte for byte",
    ),
    Bug(
        "a_batch_is_stored_up_to_the_list_that_is_none",
        (Edit("submit.lua", "local wrong = no_list(job.list)", "local wrong = false"),),
        f"{BAD_INPUT}::test_a_list_that_is_a_string_is_named_and_the_other_lists_are_served",
        ("DID NOT RAISE", "WRONGTYPE", "assert", "Regex pattern did not match"),
    ),
    Bug(
        "priorities_without_a_name_in_the_configuration_go_last",
        (Edit("ListSettings._default_lists", "names.insert(next(later, len(names)), name)", "names.append(name)"),),
        "tests/redis_lists/test_entries.py::test_priorities_are_fetched_in_their_order_and_others_between_them",
        "assert [",
    ),
    Bug(
        "a_job_with_one_attempt_waits_in_a_worker_of_redis_lists",
        (Edit("turn.lua", "return budget and budget ~= '1'", "return budget"),),
        "tests/conformance/test_prefetching.py::"
        "test_the_front_of_the_line_comes_in_order_up_to_the_first_that_cannot_wait[redis lists-plain]",
        "assert [",
    ),
    Bug(
        "the_reaper_asks_for_one_lost_job_after_the_other",
        (
            Edit(
                "ListSweeps._take_back",
                "for job in await self._operator.get_many(ids) if",
                "for job in [await self._operator.get(job_id, None) for job_id in ids] if",
            ),
        ),
        "tests/redis_lists/test_reaper.py::test_a_rescue_takes_a_few_round_trips_however_many_jobs_were_lost[200]",
        "assert 20",
    ),
    Bug(
        "a_pass_of_the_reaper_moves_all_there_is",
        (
            Edit(
                "ListSweeps._reap_worker",
                "            if time.monotonic() > until:\n                return moved\n        for",
                "        for",
            ),
        ),
        "tests/redis_lists/test_reaper.py::test_a_pass_that_has_much_to_move_ends_after_its_time_too",
        "a batch a pass",
    ),
    Bug(
        "a_full_redis_is_a_bug_of_the_producer",
        (Edit("RedisRateLimit._run", "except REDIS_ERRORS as error:", "except LookupError as error:"),),
        "tests/producer/test_rate_limits.py::test_a_redis_that_is_full_or_read_only_is_named_and_not_taken_for_a_bug",
        "OOM",
    ),
    Bug(
        "attempts_are_not_told_by_type",
        (
            Edit(
                "record_completed",
                "        telemetry.attempts_ended(job_type, State.COMPLETED, took_s)\n",
                "",
            ),
        ),
        "tests/cli/test_list_telemetry.py::test_a_worker_on_redis_lists_counts_every_end",
        "assert",
    ),
    Bug(
        "tls_is_forgotten_where_the_address_is_configured",
        (Edit("_at_configured_redis", "_redis_of(config, parts.scheme, ", '_redis_of(config, "redis", '),),
        f"{PLACES}::test_a_url_without_a_host_is_the_section_redis_and_keeps_the_rest",
        "rediss://bob",
    ),
    Bug(
        "one_option_of_the_url_puts_out_every_key_of_the_section_worker",
        (Edit("with_settings", "    options |= said", "    options = said or options"),),
        f"{PLACES}::test_what_the_url_says_wins_and_the_configuration_says_the_rest",
        "assert (3, 1000000) == (7, 20000)",
    ),
    Bug(
        "installations_with_prefixes_share_one_rate",
        (
            Edit(
                "rate_limit_key",
                "key if lists is None or key != default else",
                "key if lists is None or key else",
            ),
        ),
        f"{PLACES}::test_metrics_and_the_rate_have_the_names_of_the_prefix",
        "shop:rate_limit:producer",
    ),
    Bug(
        "an_entry_that_only_redis_can_read_stays_with_its_worker_for_ever",
        (
            Edit(
                "ListExchange._end_unreadable",
                "job_id = (await self._scripts.run(ID_IN, line[0])).decode()",
                'job_id = ""',
            ),
        ),
        f"{BAD_INPUT}::test_what_redis_takes_for_json_and_python_does_not_is_a_dead_letter_too",
        "State.RUNNING",
    ),
    Bug(
        "an_id_that_is_no_text_stops_the_claims_of_its_queue",
        (Edit("common.lua", " or not is_utf8(id)", ""),),
        f"{BAD_INPUT}::test_an_id_that_is_no_text_makes_its_entry_a_dead_letter",
        "UnicodeDecodeError",
    ),
    Bug(
        "one_key_of_another_kind_hides_the_depth_of_every_queue",
        (Edit("RedisScripts.read_fitting", ' and not str(answer).startswith("WRONGTYPE")', ""),),
        "tests/redis_lists/test_lists_as_queues.py::test_a_list_that_is_a_string_does_not_hide_what_the_others_hold",
        "WRONGTYPE",
    ),
    Bug(
        "an_id_in_upper_case_is_looked_for_in_lower_case_alone",
        (Edit("ListOperator._look", "if not record and stored_id != job_id:", "if record is None:"),),
        "tests/redis_lists/test_entries.py::test_a_job_of_another_program_is_found_by_the_id_that_it_chose",
        "JobNotFound",
    ),
    Bug(
        "a_command_takes_a_default_for_a_redis_variable_that_makes_no_sense",
        (Edit("CliSession.loaded", "return self._load(needed_on_redis)", "return loaded"),),
        "tests/cli/test_config.py"
        "::test_a_variable_of_the_redis_section_must_make_sense_where_jobs_are_in_redis_and_stops_nobody_else",
        "exit 1",
    ),
)
