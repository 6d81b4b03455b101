"""Bugs at the start of a role, and bugs that a campaign with its faults must call BROKEN."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_NOT_READY = "tests/cli/test_database_not_ready.py"
_CUT_START = (
    "tests/cli/test_database_lost_at_start.py::test_a_connection_that_is_cut_during_a_start_does_not_end_the_process"
)

_SHORT = "tests/campaign/test_campaign.py::test_a_short_campaign_keeps_every_promise"

CAMPAIGN_BUGS = (
    Bug(
        "a_campaign_in_which_a_key_runs_one_job_too_many",
        (
            Edit(
                "keys_taken.sql",
                "running = k.running + x.taken",
                "running = k.running",
            ),
        ),
        f"{_SHORT}[postgres]",
        "ran at once after the commit at",
    ),
    Bug(
        "a_campaign_in_which_the_free_slot_of_a_key_is_given_to_nobody",
        (
            Edit(
                "sqlite/admit.sql",
                "WHERE (f.running >= j.concurrency_limit) IS NOT TRUE",
                "WHERE 0",
            ),
        ),
        f"{_SHORT}[sqlite]",
        "has parked jobs and a free slot for",
    ),
    Bug(
        "a_role_does_not_wait_for_a_database_that_is_starting",
        (Edit("until_ready", "+ pause_s > patience_s", "+ pause_s > 0"),),
        f"{_NOT_READY}::test_a_role_waits_for_a_server_that_does_not_listen_yet[--role=outbox]",
        "ended before 'database unavailable, retrying'",
    ),
    Bug(
        "a_frozen_api_keeps_its_locks_past_a_short_lease",
        (Edit("apply_store_settings", "    store.expect_leases_of(config.worker.heartbeat_ttl_us / 1e6)\n", ""),),
        "tests/service/test_retention.py"
        "::test_a_frozen_role_of_any_kind_keeps_its_locks_for_half_a_lease_at_most[5s-2.5]",
        "assert 10.0 == 2.5",
    ),
    Bug(
        "a_role_ends_with_an_outage_in_the_middle_of_its_start",
        (
            Edit(
                "until_rights_are_known",
                "        if await happens_within(outage.",
                "        raise error\n        if await happens_within(outage.",
            ),
        ),
        f"{_CUT_START}[outbox-1]",
        "ended before '\"started\"'",
    ),
    Bug(
        "a_worker_ends_with_an_outage_in_the_middle_of_its_start",
        (
            Edit(
                "run_worker",
                "    await check_rights(core.store)",
                "    if (e := await check_rights(core.store)): raise e",
            ),
        ),
        f"{_CUT_START}[worker-2]",
        "",
    ),
    Bug(
        "a_role_ends_when_redis_hangs_up_on_its_start",
        (Edit("RedisScripts.open", "wrote=False, opening=True", "wrote=False"),),
        "tests/cli/test_database_lost_at_start.py::test_a_redis_that_hangs_up_on_a_start_is_waited_for",
        "ended before 'database unavailable, retrying'",
    ),
    Bug(
        "a_wrong_password_is_waited_for",
        (
            Edit(
                "cannot_connect",
                'return StoreUnavailable(f"Postgres refuses the login',
                'return ServerNotReady(f"Postgres refuses the login',
            ),
        ),
        f"{_NOT_READY}::test_only_what_may_pass_by_itself_is_waited_for[InvalidPasswordError-bool]",
        "is False",
    ),
)
