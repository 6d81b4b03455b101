"""Bugs in the contract between workers and the control plane."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

DEADLINES = "tests/server/test_execution_timeouts.py"
SPAWNING = "tests/server/test_spawning.py"
MESSAGES = "tests/wakeups/test_claim_messages.py"

CONTRACT_BUGS = (
    Bug(
        "a_late_heartbeat_of_an_http_worker_is_accepted",
        (
            Edit(
                "WorkerProtocolStore.renew_leases",
                "heartbeat.heartbeat(leases, lease_ttl_us, overrun_us=0)",
                "heartbeat.heartbeat(leases, lease_ttl_us)",
            ),
        ),
        f"{DEADLINES}::test_heartbeats_renew_up_to_the_deadline_and_are_refused_after_it[sqlite-plain]",
        "AssertionError",
    ),
    Bug(
        "a_late_completion_of_an_http_worker_is_accepted",
        (
            Edit(
                "Settlement.in_time",
                "return self.outcome_hash is not None and self.state in (State.COMPLETED, State.SCHEDULED)",
                "return False",
            ),
        ),
        f"{DEADLINES}::test_a_completion_after_the_deadline_is_refused[sqlite-before_the_sweep-plain]",
        "assert (200, True) == (409, False)",
    ),
    Bug(
        "a_timeout_is_taken_for_a_lost_worker",
        (
            Edit(
                "reclaim",
                "TIMED_OUT if job.outlived_its_deadline else LOST_LEASE",
                "LOST_LEASE",
            ),
        ),
        f"{DEADLINES}::test_the_sweep_ends_an_attempt_past_its_deadline_as_a_timeout_while_the_budget_lasts[sqlite-plain]",
        "'system') == (",
    ),
    Bug(
        "the_status_of_a_refusal_is_not_looked_at",
        (Edit("reports.py:_failed", "error.http_status >= FIRST_REFUSAL", "error.http_status < 0"),),
        "tests/server/test_http_errors.py::test_a_status_that_a_worker_tells_is_classed_by_the_table[sqlite-404]",
        "State.RETRYING",
    ),
    Bug(
        "a_message_is_acknowledged_before_the_commit",
        (
            Edit(
                "WorkerRoutes._finish",
                "        replies = await self._claims.finish(reports)\n        if self._messages",
                "        if self._messages is not None:\n"
                "            self._messages.acknowledge([(r.job_id, r.message) for r in reports])\n"
                "        replies = await self._claims.finish(reports)\n        if self._messages",
            ),
        ),
        f"{MESSAGES}::test_a_commit_that_fails_leaves_the_message_pending[sqlite_url]",
        "assert None == ",
    ),
    Bug(
        "a_message_is_acknowledged_at_the_claim",
        (Edit("StreamWakeups._drop_done", "is State.RUNNING}", "is State.PENDING}"),),
        f"{MESSAGES}::test_a_message_stays_until_the_commit_and_goes_after_it[sqlite_url-complete]",
        ("TimeoutError", "assert None == "),
    ),
    Bug(
        "a_configured_transport_is_not_used",
        (Edit("run_role", "    use_configured_redis(config, queue)\n    role", "    role"),),
        "tests/service/test_redis_keys.py::test_every_role_uses_the_transport_that_is_configured[api]",
        "TimeoutError",
    ),
    Bug(
        "children_are_spawned_without_the_lease_token",
        (
            Edit(
                "SpawnRoutes.spawn",
                "if lease is None or not await self._claims.check_lease(lease):",
                "if lease is None:",
            ),
        ),
        f"{SPAWNING}::test_a_lease_that_is_not_the_workers_stores_nothing[sqlite-wrong0]",
        "KeyError: 'code'",
    ),
)
