"""Bugs of the Redis-list engine: late writers, rescues of the living, entries that vanish or are stored twice."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

LUA = "stores/redis_lists/lua"
SCRIPTS = "tests/redis_lists/test_scripts.py"
BAD_INPUT = "tests/redis_lists/test_bad_input.py"

REDIS_LIST_BUGS = (
    Bug(
        "a_late_report_on_redis_lists_is_taken",
        (
            Edit(
                f"{LUA}/turn.lua",
                "if job[1] ~= 'running' or job[2] ~= r.version then return r.lost",
                "if job[1] ~= 'running' then return r.lost",
            ),
        ),
        f"{SCRIPTS}::test_acts_on_a_version_that_is_over_change_nothing",
        "assert ['completed'] == ['']",
    ),
    Bug(
        "the_reaper_does_not_look_for_the_heartbeat_again",
        (
            Edit(
                f"{LUA}/turn.lua", "if r.lost ~= '' and redis.call('EXISTS'", "if r.lost == '?' and redis.call('EXISTS'"
            ),
        ),
        "tests/redis_lists/test_reaper.py::test_a_heartbeat_that_came_in_between_keeps_the_job",
        "assert 1 == 0",
    ),
    Bug(
        "a_submit_that_is_sent_twice_is_stored_twice",
        (Edit(f"{LUA}/submit.lua", "if there[1] then return", "if there[1] == 0 then return"),),
        "tests/redis_lists/test_kills.py::test_a_submit_whose_answer_was_lost_can_be_repeated[after the answer]",
        "assert",
    ),
    Bug(
        "an_entry_that_is_no_job_vanishes",
        (Edit(f"{LUA}/turn.lua", "    redis.call('LPUSH', DEAD, entry)\n    tell_odd", "    tell_odd"),),
        f"{BAD_INPUT}::test_entries_that_are_no_jobs_become_dead_letters_and_the_others_run",
        "byte for byte",
    ),
    Bug(
        "a_batch_is_stored_up_to_the_list_that_is_none",
        (Edit(f"{LUA}/submit.lua", "local wrong = no_list(job.list)", "local wrong = false"),),
        f"{BAD_INPUT}::test_a_list_that_is_a_string_is_named_and_the_other_lists_are_served",
        ("DID NOT RAISE", "WRONGTYPE", "assert", "Regex pattern did not match"),
    ),
    Bug(
        "priorities_without_a_name_in_the_configuration_go_last",
        (Edit("stores/redis_lists/settings.py", "names.insert(next(later, len(names)), name)", "names.append(name)"),),
        "tests/redis_lists/test_entries.py::test_priorities_are_fetched_in_their_order_and_others_between_them",
        "assert [",
    ),
    Bug(
        "a_job_with_one_attempt_waits_in_a_worker_of_redis_lists",
        (Edit(f"{LUA}/turn.lua", "return budget and budget ~= '1'", "return budget"),),
        "tests/conformance/test_prefetching.py::"
        "test_the_front_of_the_line_comes_in_order_up_to_the_first_that_cannot_wait[redis lists-plain]",
        "assert [",
    ),
    Bug(
        "the_reaper_asks_for_one_lost_job_after_the_other",
        (
            Edit(
                "stores/redis_lists/reaper.py",
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
                "stores/redis_lists/reaper.py",
                "            if time.monotonic() > until:\n                return moved\n        for",
                "        for",
            ),
        ),
        "tests/redis_lists/test_reaper.py::test_a_pass_that_has_much_to_move_ends_after_its_time_too",
        "a batch a pass",
    ),
    Bug(
        "a_full_redis_is_a_bug_of_the_producer",
        (Edit("redis/rate_limit.py", "except REDIS_ERRORS as error:", "except LookupError as error:"),),
        "tests/producer/test_rate_limits.py::test_a_redis_that_is_full_or_read_only_is_named_and_not_taken_for_a_bug",
        "OOM",
    ),
    Bug(
        "attempts_are_not_told_by_type",
        (
            Edit(
                "worker/reporting/telemetry.py",
                "        telemetry.attempts_ended(job_type, State.COMPLETED, took_s)\n",
                "",
            ),
        ),
        "tests/cli/test_list_telemetry.py::test_a_worker_on_redis_lists_counts_every_end",
        "assert",
    ),
)
