"""Every check, made to fire by the facts that it is for, with a next step; and quiet on a healthy queue."""

from __future__ import annotations

from typing import Any

import pytest

from euterpe.model.claims.presence import BreakerState, LiveWorker, TrippedBreaker, WorkerFacts
from euterpe.model.diagnosis.facts import (
    AccountFacts,
    DatabaseFacts,
    DiskFact,
    JobFacts,
    KeyFact,
    MachineFacts,
    OutboxFacts,
    PauseFact,
    PostgresFacts,
    ReceiverFact,
    RedisFacts,
    SqliteFacts,
    TableFact,
    WaitingType,
)
from euterpe.model.diagnosis.finding import Finding, Severity, findings, worst
from euterpe.service.doctor.checks import accounts, database, jobs, machine, postgres, redis, sqlite, webhooks

MINUTE = 60_000_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WARNING, ERROR = Severity.WARNING, Severity.ERROR
OLD = WaitingType("default", "report", 3, 2 * HOUR)


def worker(job_type: str, queue: str = "default", **facts: Any) -> LiveWorker:
    known = WorkerFacts(queues=(queue,), types=(job_type,), **facts)
    return LiveWorker(worker_id="w", started_at=0, seen_at=0, facts=known)


TRIPPED = worker("report", breakers=(TrippedBreaker("default", "report", BreakerState.OPEN, 5),))
BLOCKED = LiveWorker(worker_id="b", started_at=0, seen_at=0, facts=WorkerFacts(queues=("default",)), answers=False)
KINDS: list[tuple[Any, Any]] = [
    (jobs.CHECKS, JobFacts()),
    (webhooks.CHECKS, OutboxFacts()),
    (accounts.CHECKS, AccountFacts()),
    (database.CHECKS, DatabaseFacts()),
    (postgres.CHECKS, PostgresFacts()),
    (sqlite.CHECKS, SqliteFacts()),
    (redis.CHECKS, RedisFacts()),
    (machine.CHECKS, MachineFacts()),
]
FIRES: list[tuple[str, Severity, Any, str]] = [
    ("workers_alive", ERROR, JobFacts(waiting=(OLD,)), "2h"),
    ("expired_leases", ERROR, JobFacts(expired_leases=4, oldest_expired_us=3 * MINUTE), "4 running jobs"),
    ("overdue_jobs", ERROR, JobFacts(overdue=2, oldest_overdue_us=MINUTE), "2 delayed"),
    ("unserved_types", WARNING, JobFacts(waiting=(OLD,), alive=(worker("x"),)), "report (queue default, 3)"),
    ("unserved_types", WARNING, JobFacts(waiting=(OLD,), alive=(worker("report", queue="q"),)), "queue default"),
    ("blocked_workers", WARNING, JobFacts(alive=(worker("report"), BLOCKED)), "1 of 2 workers keep the leases"),
    (
        "circuit_breakers",
        WARNING,
        JobFacts(alive=(worker("report"), TRIPPED)),
        "report in queue default (on 1 of 2 workers)",
    ),
    ("queue_age", WARNING, JobFacts(waiting=(OLD,), served_types=frozenset({"report"})), "default"),
    ("queue_age", WARNING, JobFacts(waiting=(OLD,), alive=(worker("report"),)), "default"),
    ("parked_jobs", WARNING, JobFacts(parked=9, oldest_parked_us=2 * HOUR), "9 jobs"),
    ("paused", WARNING, JobFacts(pauses=(PauseFact("queue", "q", MINUTE, 5),)), "queue q"),
    ("paused", WARNING, JobFacts(pauses=(PauseFact("type", "t", 2 * DAY),)), "type t"),
    ("failure_rate", WARNING, JobFacts(ended_lately=100, failed_lately=40), "40 %"),
    ("old_failed_jobs", WARNING, JobFacts(old_failed=7), "7 failed jobs"),
    ("stuck_operations", WARNING, JobFacts(stuck_operations=1), "1 bulk"),
    ("outbox_dead_letters", WARNING, OutboxFacts(dead=3), "3 webhook events"),
    ("dead_receivers", WARNING, OutboxFacts(receivers=(ReceiverFact("http://x", 9),)), "http://x (9)"),
    ("outbox_backlog", WARNING, OutboxFacts(oldest_waiting_us=HOUR), "1h"),
    ("expiring_keys", WARNING, AccountFacts(expiring=(KeyFact("ek_1", "a", 3 * DAY),)), "ek_1 of a (in 3d)"),
    ("missing_keks", ERROR, AccountFacts(keks_used={"old": 2, "k": 1}, keks_here=frozenset({"k"})), "2 secrets"),
    ("missing_keks", ERROR, AccountFacts(keks_used={"k": 1}), "1 secrets"),
    ("plaintext_secrets", WARNING, AccountFacts(plaintext=True), "plaintext"),
    ("migrations", ERROR, DatabaseFacts(missing_migrations=("0002 operations",)), "0002 operations"),
    (
        "migrations",
        ERROR,
        DatabaseFacts(too_old="made before the first release", make_anew="make it anew"),
        "first release",
    ),
    ("migrations", ERROR, DatabaseFacts(too_new="the database has migration 99"), "99"),
    ("clock_skew", WARNING, DatabaseFacts(clock_skew_us=-2_500_000), "2.5 s behind"),
    ("clock_skew", ERROR, DatabaseFacts(clock_skew_us=60_000_000), "60.0 s ahead"),
    ("postgres_version", ERROR, PostgresFacts(version=130004), "13"),
    ("postgres_primary", ERROR, PostgresFacts(standby=True), "standby"),
    ("pgbouncer_mode", WARNING, PostgresFacts(through_pooler=True), "transaction mode"),
    ("autovacuum", ERROR, PostgresFacts(autovacuum=False), "whole server"),
    ("autovacuum", ERROR, PostgresFacts(tables=(TableFact("inbox_jobs", autovacuum=False),)), "inbox_jobs"),
    ("bloat", WARNING, PostgresFacts(tables=(TableFact("inbox_jobs", 1_000, 90_000),)), "90,000 dead"),
    ("long_transactions", WARNING, PostgresFacts(longest_transaction_us=9 * MINUTE, longest_transaction="7 x"), "9m"),
    ("long_transactions", ERROR, PostgresFacts(longest_transaction_us=9 * HOUR, longest_transaction="7 x"), "9h"),
    ("prepared_transactions", WARNING, PostgresFacts(prepared_transactions=1), "1 prepared"),
    ("replication_slots", WARNING, PostgresFacts(idle_slots=("s",)), "slots s"),
    ("durability", ERROR, PostgresFacts(fsync=False), "fsync"),
    ("durability", ERROR, PostgresFacts(full_page_writes=False), "full_page_writes"),
    ("database_defaults", WARNING, PostgresFacts(role_defaults=("synchronous_commit=off",)), "synchronous_commit"),
    ("schema_rights", ERROR, PostgresFacts(refused_tables=("inbox_jobs",)), "inbox_jobs"),
    ("invalid_indexes", ERROR, PostgresFacts(invalid_indexes=("i",)), "used: i"),
    ("connections", WARNING, PostgresFacts(connections=95), "95 of 100"),
    ("xid_wraparound", WARNING, PostgresFacts(oldest_xid_age=1_200_000_000), "1,200,000,000"),
    ("xid_wraparound", ERROR, PostgresFacts(oldest_xid_age=1_900_000_000), "1,900,000,000"),
    ("wal_size", WARNING, PostgresFacts(wal_bytes=9 << 30), "9.7 GB"),
    ("sqlite_version", ERROR, SqliteFacts(version=(3, 31, 1)), "3.31.1"),
    ("journal_mode", ERROR, SqliteFacts(journal_mode="delete"), "delete"),
    ("sqlite_wal_size", WARNING, SqliteFacts(wal_bytes=900_000_000), "900 MB"),
    ("sqlite_free_space", WARNING, SqliteFacts(pages=100_000, free_pages=90_000), "369 MB"),
    ("network_file_system", ERROR, SqliteFacts(file_system="nfs4"), "nfs4"),
    ("file_rights", ERROR, SqliteFacts(folder_writable=False), "its folder"),
    ("file_rights", ERROR, SqliteFacts(writable=False), "the file"),
    ("file_privacy", WARNING, SqliteFacts(open_to_others=True), "every user"),
    ("redis_reachable", ERROR, RedisFacts(unreachable="ConnectionError"), "ConnectionError"),
    ("redis_version", WARNING, RedisFacts(version=(5, 0)), "Redis 5.0"),
    ("redis_eviction", WARNING, RedisFacts(eviction_policy="allkeys-lru"), "allkeys-lru"),
    ("redis_eviction", ERROR, RedisFacts(eviction_policy="allkeys-lfu", holds_jobs=True), "throws jobs away"),
    ("redis_persistence", WARNING, RedisFacts(holds_jobs=True, append_only=False), "append-only"),
    ("redis_memory", WARNING, RedisFacts(memory_limit=100, memory_used=95), "95 %"),
    ("python_version", ERROR, MachineFacts(python=(3, 9)), "3.9"),
    ("drivers", ERROR, MachineFacts(missing_drivers=("asyncpg",)), "asyncpg"),
    ("ffmpeg", ERROR, MachineFacts(transcodes=True, ffmpeg_problem="ffmpeg is not installed"), "not installed"),
    ("disk_space", WARNING, MachineFacts(disks=(DiskFact(".", 10**11, 2 * 10**9),)), "2,000 MB"),
    ("disk_space", ERROR, MachineFacts(disks=(DiskFact(".", 10**11, 10**8),)), "100 MB"),
    ("open_files", WARNING, MachineFacts(open_files=1024), "1,024"),
    (
        "config_privacy",
        WARNING,
        MachineFacts(config_file="c.yml", config_has_secrets=True, config_open_to_others=True),
        "c.yml",
    ),
    ("key_file_privacy", ERROR, MachineFacts(key_files_open_to_others=("a.keks",)), "a.keks"),
    ("exposed_api", WARNING, MachineFacts(api_host="0.0.0.0"), "0.0.0.0"),  # noqa: S104  # a value, nobody listens
]


def looked(facts: Any) -> list[Finding]:
    checks = next(checks for checks, healthy in KINDS if type(healthy) is type(facts))
    return list(findings(checks, facts))


@pytest.mark.parametrize(("name", "severity", "facts", "part"), FIRES, ids=[f"{f[0]}-{f[3]}" for f in FIRES])
def test_a_check_fires_and_says_what_to_do_next(name: str, severity: Severity, facts: Any, part: str) -> None:
    (told,) = [finding for finding in looked(facts) if finding.check == name]
    assert (told.severity, bool(told.next_step)) == (severity, True)
    assert part in told.message


def test_a_healthy_queue_has_no_complaint_and_every_check_was_made_to_fire() -> None:
    every = [finding for _, healthy in KINDS for finding in looked(healthy)]
    assert {finding.severity for finding in every} == {Severity.OK}
    names = [finding.check for finding in every]
    assert len(set(names)) == len(names) >= 25
    assert set(names) == {name for name, *_ in FIRES}


def test_the_worst_finding_counts() -> None:
    well = Finding("a", Severity.OK, "")
    bad = Finding("b", Severity.WARNING, "", "")
    assert worst([]) is Severity.OK
    assert worst([well, bad]) is Severity.WARNING
    assert worst([well, bad, Finding("c", Severity.ERROR, "", "")]) is Severity.ERROR


def complaints(facts: JobFacts) -> set[str]:
    return {finding.check for finding in looked(facts) if finding.severity is not Severity.OK}


def test_a_paused_type_is_not_called_unserved() -> None:
    paused = JobFacts(waiting=(OLD,), alive=(worker("x"),), pauses=(PauseFact("type", "report", MINUTE, 3),))
    assert complaints(paused) == {"paused"}


def test_a_worker_that_is_alive_or_holds_a_job_is_no_missing_worker_and_one_that_stops_is_none() -> None:
    assert "workers_alive" not in complaints(JobFacts(waiting=(OLD,), workers=1))
    assert "workers_alive" not in complaints(JobFacts(waiting=(OLD,), alive=(worker("x"),)))
    assert "workers_alive" in complaints(JobFacts(waiting=(OLD,), alive=(worker("report", stopping=True),)))
