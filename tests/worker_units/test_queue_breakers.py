"""What workers ask the circuits of their process before they claim, with a clock in the hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pytest

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.claims.outcome import Failed, Outcome, Released, Success
from euterpe.model.failures.circuit_breaker import BreakerPolicy
from euterpe.model.failures.failure import CIRCUIT_OPEN, Category, Failure
from euterpe.model.job import Claim, JobRow, Lease
from euterpe.model.submitting.submission import EXECUTION_TIMEOUT_US, LOCAL_REQUESTER
from euterpe.worker.attempt import AttemptRun, HandlerInterruption
from euterpe.worker.claiming.breaker import EMPTY_PAUSE_US, PROBE_CHOICE, CircuitBreakers
from euterpe.worker.claiming.circuits import CircuitScope, SharedCircuits
from euterpe.worker.handling.handlers import Handlers, handler_of
from euterpe.worker.reporting.telemetry import NoTelemetry

POLICY = BreakerPolicy(min_samples=4, window_us=1_000_000, cooldown_us=300_000)
TYPES = ("fetch", "store", "echo")
ALL = ClaimRequest(worker_id="w", limit=20, queues=("mail", "default"), types=TYPES)
AWAY = Failed(Failure(Category.TEMPORARY, "away", "ConnectionError"))
GOOD = Success(b"1")


def at_store(place: str, code: str = "storage.unreachable") -> Failed:
    return Failed(Failure(Category.TEMPORARY, "away", code, place=place))


async def _handler() -> None: ...


class Heard(NoTelemetry):
    def __init__(self) -> None:
        self.codes: dict[str, int] = {}

    def breaker_state(self, queue: str, code: int) -> None:
        self.codes[queue] = code


class Process:
    """Two workers of one process, on the queues `mail` and `default`. A `store` job's place is its payload."""

    def __init__(self) -> None:
        self.now_us = 0
        self._number = 0
        self.circuits = SharedCircuits(POLICY, lambda: self.now_us)
        self.handlers = Handlers()
        for name in TYPES:
            self.handlers.add(handler_of(name, _handler))
        self.handlers.name_places("store", lambda job: {job.payload.decode()})
        self.heard = Heard()
        self.first, self.second = (
            CircuitBreakers(self.circuits, ALL.queues, self.handlers, self.heard) for _ in range(2)
        )

    def claim(self, requester: str = "ann", job_type: str = "fetch", queue: str = "mail", place: str = "") -> Claim:
        self._number += 1
        known = {
            "id": f"job-{self._number}", "requester_id": requester, "queue": queue, "type": job_type,
            "payload": place.encode(), "claim_version": 1, "execution_timeout_us": EXECUTION_TIMEOUT_US,
        }  # fmt: skip
        fields = dict.fromkeys(JobRow.__struct_fields__) | known
        return Claim(JobRow(**cast(Any, fields)), Lease(f"job-{self._number}", 1, 0))

    def ended(self, claim: Claim, outcome: Outcome, began_s: float = 1e12, **more: Any) -> AttemptRun:
        handler = self.handlers.by_type[claim.job.type]
        attempt = AttemptRun(claim, handler, cast(Any, None), began_s, began_s, 0)
        attempt.outcome = outcome
        for name, value in more.items():
            setattr(attempt, name, value)
        return attempt

    def run(self, count: int, outcome: Outcome, requester: str = "ann", **kind: str) -> None:
        self.first.record([self.ended(self.claim(requester, **kind), outcome) for _ in range(count)])

    def offer(self, claims: Sequence[Claim]) -> tuple[list[str], list[Outcome]]:
        """Which requesters' jobs of an ordinary claim may run, and how the others go back."""
        allowed, refused = self.first.claimed(ALL, claims)
        return [claim.job.requester_id for claim in allowed], [outcome for _, outcome in refused]

    def cool_down(self) -> None:
        self.now_us += POLICY.cooldown_us

    @property
    def open(self) -> set[CircuitScope]:
        return set(self.circuits.tripped)


def is_deferral(outcome: Outcome) -> bool:
    return isinstance(outcome, Failed) and outcome.failure.code == CIRCUIT_OPEN and outcome.failure.unfit


def test_closed_circuits_hand_the_very_request_on() -> None:
    process = Process()
    assert process.first.narrowed(ALL) is ALL
    process.run(3, AWAY)
    assert process.first.narrowed(ALL) is ALL


def test_one_requester_opens_no_circuit_but_its_own() -> None:
    process = Process()
    process.run(1000, AWAY, "ann")
    process.run(1, AWAY, "bob")
    assert process.open == {CircuitScope("mail", "fetch", "ann")}
    assert process.first.narrowed(ALL) == ALL
    others = [process.claim("bob"), process.claim("ann", "echo"), process.claim("ann", queue="default")]
    allowed, refused = process.offer([process.claim("ann"), *others, process.claim("ann")])
    assert allowed == ["bob", "ann", "ann"]
    assert [is_deferral(outcome) for outcome in refused] == [True, True]
    assert process.heard.codes == {"mail": 2, "default": 0}


def test_two_requesters_whose_jobs_fail_open_the_circuit_for_everybody() -> None:
    process = Process()
    process.run(3, AWAY, "ann")
    process.run(2, AWAY, "bob")
    assert process.open == {CircuitScope("mail", "fetch")}
    allowed, (refusal,) = process.offer([process.claim("carl")])
    assert not allowed
    assert is_deferral(refusal)


def test_others_that_succeed_keep_the_type_open_to_everybody() -> None:
    process = Process()
    process.run(1, AWAY, "ann")
    process.run(20, GOOD, "carl")
    process.run(20, AWAY, "ann")
    process.run(4, AWAY, "bob")
    assert process.open == {CircuitScope("mail", "fetch", "ann"), CircuitScope("mail", "fetch", "bob")}


def test_the_application_alone_leaves_its_type_unclaimed_until_another_requester_is_seen() -> None:
    process = Process()
    process.run(4, AWAY, LOCAL_REQUESTER)
    assert process.open == {CircuitScope("mail", "fetch")}
    narrowed = process.first.narrowed(ALL)
    assert narrowed is not None
    assert narrowed.queues == ALL.queues
    process.run(4, AWAY, LOCAL_REQUESTER, queue="default")
    narrowed = process.first.narrowed(ALL)
    assert narrowed is not None
    assert narrowed.types == ("store", "echo")
    allowed, refused = process.offer([process.claim(LOCAL_REQUESTER)])
    assert (allowed, refused) == ([], [Released()]), "the next claim leaves it where it is"
    assert process.offer([process.claim("bob", "echo")])[0] == ["bob"]
    assert process.open == {
        CircuitScope("mail", "fetch", LOCAL_REQUESTER),
        CircuitScope("default", "fetch", LOCAL_REQUESTER),
    }
    assert process.first.narrowed(ALL) == ALL
    assert process.offer([process.claim("bob")])[0] == ["bob"]


def test_a_place_that_fails_is_left_alone_and_its_requesters_other_places_are_not() -> None:
    process = Process()
    process.run(4, at_store("dead.example"), "ann", job_type="store", place="dead.example")
    assert process.open == {CircuitScope("mail", "store", "ann", "dead.example")}
    claims = [
        process.claim("ann", "store", place="dead.example"),
        process.claim("ann", "store", place="well.example"),
        process.claim("bob", "store", place="dead.example"),
    ]
    allowed, refused = process.first.claimed(ALL, claims)
    assert list(allowed) == claims[1:]
    ((claim, outcome),) = refused
    assert claim is claims[0]
    assert is_deferral(outcome)
    process.cool_down()
    probe = process.claim("ann", "store", place="dead.example")
    assert process.first.claimed(ALL, [probe, process.claim("ann", "store", place="dead.example")])[0] == [probe]
    process.first.record([process.ended(probe, GOOD)])
    assert process.open == set()


def test_trouble_of_the_workers_own_machine_opens_nothing() -> None:
    process = Process()
    process.run(20, Failed(Failure(Category.SYSTEM, "no space", "worker.disk")), job_type="store")
    assert process.open == set()


def test_a_timeout_shorter_than_that_of_the_type_opens_nothing() -> None:
    process = Process()
    timed_out = Failed(Failure(Category.TIMEOUT, "over", "timeout"))
    claims = [process.claim() for _ in range(8)]
    short = [Claim(msgspec.structs.replace(claim.job, execution_timeout_us=1), claim.lease) for claim in claims[:4]]
    cut_off: dict[str, Any] = {"interruption": HandlerInterruption.TIMEOUT}
    process.first.record([process.ended(claim, timed_out, **cut_off) for claim in short])
    assert process.open == set()
    process.first.record([process.ended(claim, timed_out, **cut_off) for claim in claims[4:]])
    assert process.open == {CircuitScope("mail", "fetch", "ann")}


def failing_for_all() -> Process:
    process = Process()
    process.run(3, AWAY, "ann")
    process.run(2, AWAY, "bob")
    process.cool_down()
    return process


def test_the_probe_is_another_requesters_than_the_last_that_failed() -> None:
    process = failing_for_all()
    request = process.first.narrowed(ALL)
    assert request is not None
    assert (request.queues, request.types, request.limit) == (("mail",), ("fetch",), PROBE_CHOICE)
    assert process.first.is_probe(request)
    claims = [process.claim("bob"), process.claim("bob"), process.claim("carl")]
    allowed, refused = process.first.claimed(request, claims)
    assert allowed == (claims[2],)
    assert [is_deferral(outcome) for _, outcome in refused] == [True, True]
    process.first.record([process.ended(claims[2], AWAY)])
    process.cool_down()
    request = process.first.narrowed(ALL)
    assert request is not None
    chosen = process.first.claimed(request, [process.claim("carl"), process.claim("bob")])[0]
    assert [claim.job.requester_id for claim in chosen] == ["bob"]


def test_one_probe_decides_for_its_own_circuit_only() -> None:
    process = failing_for_all()
    process.run(4, AWAY, "dora", job_type="echo")
    request = process.first.narrowed(ALL)
    assert request is not None
    probe = process.claim("carl")
    process.first.claimed(request, [probe])
    process.first.record([process.ended(probe, GOOD)])
    assert process.open == {CircuitScope("mail", "echo", "dora")}


def test_after_the_cooldown_one_worker_gets_one_probe_and_all_get_the_rest() -> None:
    process = failing_for_all()
    probe = process.second.narrowed(ALL)
    assert probe is not None
    assert process.second.is_probe(probe)
    process.now_us += 100 * POLICY.cooldown_us
    for breakers in (process.first, process.second):
        rest = breakers.narrowed(ALL)
        assert rest is not None
        assert not breakers.is_probe(rest), "however long the probe takes"
        assert rest.queues == ALL.queues


def test_a_worker_that_ends_leaves_its_probe_to_another() -> None:
    process = failing_for_all()
    process.first.narrowed(ALL)
    process.first.close()
    request = process.second.narrowed(ALL)
    assert request is not None
    assert process.second.is_probe(request)


def test_a_probe_that_could_not_be_claimed_is_asked_for_again() -> None:
    process = failing_for_all()
    away = process.first.narrowed(ALL)
    assert away is not None
    process.first.failed_to_claim(away)  # the database is away
    empty = process.first.narrowed(ALL)
    assert empty == away
    assert process.first.claimed(empty, []) == ((), [])  # and then the queue is empty
    assert process.first.wait_s(60.0) == EMPTY_PAUSE_US / 1e6
    process.now_us += EMPTY_PAUSE_US
    assert process.first.narrowed(ALL) == away


def test_what_waits_in_the_worker_goes_back_when_its_circuit_opens() -> None:
    process = Process()
    process.run(1, GOOD, "bob")
    waiting, others = process.claim("ann"), process.claim("bob")
    assert process.first.refusal_of(waiting) is None
    process.run(4, AWAY, "ann")
    refusal = process.first.refusal_of(waiting)
    assert refusal is not None
    assert is_deferral(refusal)
    assert process.first.refusal_of(others) is None


def test_results_of_long_ago_and_attempts_of_another_era_do_not_count() -> None:
    process = Process()
    process.run(3, AWAY)
    process.now_us += 2 * POLICY.window_us
    assert not process.circuits.is_counting(), "a window without a failure is forgotten"
    process.run(3, AWAY)
    assert process.open == set()
    process.run(1, AWAY)
    process.cool_down()
    probe = process.claim()
    assert process.offer([probe])[0] == ["ann"]
    process.first.record([process.ended(probe, GOOD)])
    assert process.open == set()
    process.first.record([process.ended(process.claim(), AWAY, began_s=0.0) for _ in range(9)])
    assert process.open == set(), "they began before it closed"


def test_each_change_is_a_log_line_that_names_the_type_and_says_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "euterpe.worker")
    process = Process()
    process.run(4, AWAY, "ann")
    process.cool_down()
    probe = process.claim("ann")
    process.offer([probe])
    process.first.record([process.ended(probe, GOOD)])
    opened, half_open, closed = (record for record in caplog.records if record.__dict__.get("queue") == "mail")
    assert opened.levelname == "WARNING"
    assert opened.__dict__["delay_ms"] == POLICY.cooldown_us // 1_000
    assert (opened.__dict__["type"], opened.__dict__["requester_id"]) == ("fetch", "ann")
    for words in ("circuit breaker open", "are not charged", "`euterpe failures list`", "circuit_breaker"):
        assert words in opened.getMessage()
    assert half_open.getMessage().startswith("circuit breaker half open")
    assert closed.getMessage().startswith("circuit breaker closed: the probe succeeded")
