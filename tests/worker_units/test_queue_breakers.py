"""What workers ask the circuits of their process before they claim, with a clock in the hand."""

from __future__ import annotations

import pytest

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.claims.outcome import Success
from euterpe.model.failures.circuit_breaker import BreakerPolicy
from euterpe.worker.claiming.breaker import EMPTY_PAUSE_US, QueueBreakers, SharedCircuits
from euterpe.worker.reporting.telemetry import NoTelemetry

POLICY = BreakerPolicy(min_samples=4, window_us=1_000_000, cooldown_us=300_000)
ALL = ClaimRequest(worker_id="w", limit=10, queues=("mail", "default"))
PROBE = ClaimRequest(worker_id="w", limit=1, queues=("mail",))
OTHERS = ClaimRequest(worker_id="w", limit=10, queues=("default",))


class Process:
    """Two workers of one process, on the queues `mail` and `default`."""

    def __init__(self) -> None:
        self.now_us = 0
        self.circuits = SharedCircuits(POLICY, lambda: self.now_us)
        self.first, self.second = (QueueBreakers(self.circuits, ALL.queues, NoTelemetry()) for _ in range(2))

    def trip(self) -> None:
        self.circuits.of("mail").write_down(self.now_us, failed=4)


def test_closed_circuits_hand_the_very_request_on() -> None:
    assert Process().first.narrowed(ALL) is ALL


def test_after_the_cooldown_one_worker_gets_one_probe_and_all_get_the_other_queues() -> None:
    process = Process()
    process.trip()
    assert (process.first.narrowed(ALL), process.second.narrowed(ALL)) == (OTHERS, OTHERS)
    process.now_us += POLICY.cooldown_us
    assert [process.second.narrowed(ALL), process.first.narrowed(ALL), process.second.narrowed(ALL)] == [
        PROBE,
        OTHERS,
        OTHERS,
    ]
    process.now_us += 100 * POLICY.cooldown_us
    assert process.first.narrowed(ALL) == OTHERS, "however long the probe takes"


def test_a_worker_that_ends_leaves_its_probe_to_another() -> None:
    process = Process()
    process.trip()
    process.now_us += POLICY.cooldown_us
    assert process.first.narrowed(ALL) == PROBE
    process.first.close()
    assert process.second.narrowed(ALL) == PROBE


def test_a_probe_that_could_not_be_claimed_is_asked_for_again() -> None:
    process = Process()
    process.trip()
    process.now_us += POLICY.cooldown_us
    away = process.first.narrowed(ALL)
    assert away is not None
    assert process.first.is_probe(away)
    process.first.failed_to_claim(away)  # the database is away
    empty = process.first.narrowed(ALL)
    assert empty == PROBE
    assert process.first.claimed(empty, []) == ((), ())  # and then the queue is empty
    assert process.first.narrowed(ALL) == OTHERS
    assert process.first.wait_s(60.0) == EMPTY_PAUSE_US / 1e6
    process.now_us += EMPTY_PAUSE_US
    assert process.first.narrowed(ALL) == PROBE


def test_successes_of_long_ago_do_not_hide_failures_of_now() -> None:
    process = Process()
    circuit = process.circuits.of("mail")
    circuit.write_down(process.now_us)
    circuit.succeeded += 1_000
    process.now_us += 10 * POLICY.window_us
    process.trip()
    assert not circuit.is_closed


def test_each_change_is_a_log_line_that_names_the_queue_and_says_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "euterpe.worker")
    process = Process()
    process.trip()
    process.now_us += POLICY.cooldown_us
    process.first.narrowed(ALL)
    process.circuits.of("mail").end_probe(Success(b"1"))
    opened, half_open, closed = (record for record in caplog.records if record.__dict__.get("queue") == "mail")
    assert opened.levelname == "WARNING"
    assert opened.__dict__["delay_ms"] == POLICY.cooldown_us // 1_000
    for words in ("circuit breaker open", "wait and are not charged", "`euterpe failures list`", "circuit_breaker"):
        assert words in opened.getMessage()
    assert half_open.getMessage().startswith("circuit breaker half open")
    assert closed.getMessage() == "circuit breaker closed: the probe succeeded, the queue is claimed again"
