"""What one worker asks of the circuits before it claims, and tells them after jobs have ended (ADR 016).

A type that fails for everybody is left out of the claim: its jobs stay where they are, in order and uncharged. After
the cooldown a few of them are claimed, one of them runs, the probe, and its end decides. What fails for one requester
or one place is claimed with the rest, and goes back uncharged for a cooldown or longer, so that no claim has to look
for requesters. Of those, the first that comes after the cooldown is the probe. What runs when a circuit opens runs on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.claims.outcome import Failed, Outcome, Released, Success
from euterpe.model.claims.presence import BREAKERS_TOLD, TrippedBreaker
from euterpe.model.failures.circuit_breaker import BreakerCode
from euterpe.model.failures.failure import CIRCUIT_OPEN, Category, Failure
from euterpe.model.job import Claim, JobRow
from euterpe.model.submitting.submission import DEFAULT_QUEUE
from euterpe.ports import Telemetry
from euterpe.worker.attempt import AttemptRun
from euterpe.worker.claiming.circuits import Circuit, SharedCircuits
from euterpe.worker.handling.handlers import Handlers

EMPTY_PAUSE_US: Final = 500_000
"""A queue without jobs of the type gives no probe; it is asked again after this while."""
SHORTEST_WAIT_S: Final = 0.05
PROBE_CHOICE: Final = 10
"""So many are claimed for a probe, so that it can be another requester's than the last that failed."""
Refused = tuple[Claim, Outcome]


class CircuitBreakers:
    """The circuits as one worker sees them. While nothing fails they cost a comparison a claim and an exchange."""

    def __init__(self, shared: SharedCircuits, queues: Sequence[str], handlers: Handlers, telemetry: Telemetry) -> None:
        """`queues` empty: this worker has no breakers."""
        self._shared = shared
        self._queues = tuple(queues)
        self._handlers = handlers
        self._telemetry = telemetry
        self._published: dict[str, BreakerCode] = {}
        self._seen = -1
        self._publish_states()

    # --- before a claim -------------------------------------------------------------------------------

    def narrowed(self, request: ClaimRequest) -> ClaimRequest | None:
        """The request without what must not be claimed; or for one probe; or None when nothing is left."""
        if self._seen != self._shared.changes:
            self._publish_states()
        if not self._shared.tripped or not self._queues:
            return request
        for circuit in self._for_all():
            if request.limit and circuit.is_due:
                return self._request_of_probe(circuit, request)
        queues, types = self._claimable(request.queues)
        return msgspec.structs.replace(request, queues=queues, types=types) if queues else None

    def _request_of_probe(self, circuit: Circuit, request: ClaimRequest) -> ClaimRequest:
        choice = min(request.limit, PROBE_CHOICE) if self._shared.has_tenants else 1
        scope = circuit.scope
        probing = msgspec.structs.replace(request, queues=(scope.queue,), types=(scope.type,), limit=choice, prefetch=0)
        circuit.begin_probe(self, request=probing, lease=None)
        self._publish_states()
        return probing

    def _for_all(self) -> list[Circuit]:
        """Those that this worker leaves out of its claims."""
        types = self._handlers.by_type
        return [
            c
            for c in self._shared.tripped.values()
            if c.scope.for_all and c.scope.queue in self._queues and c.scope.type in types
        ]

    def _claimable(self, queues: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Queues that have anything left, and types that are left in any of them."""
        shut, types = {(c.scope.queue, c.scope.type) for c in self._for_all()}, self._handlers.types
        left = tuple(queue for queue in queues if any((queue, type_) not in shut for type_ in types))
        return left, tuple(type_ for type_ in types if any((queue, type_) not in shut for queue in left))

    def is_probe(self, request: ClaimRequest) -> bool:
        return self._probed_by(request) is not None

    def _probed_by(self, request: ClaimRequest) -> Circuit | None:
        if not self._shared.tripped:
            return None
        return next((c for c in self._shared.tripped.values() if c.request is request), None)

    def failed_to_claim(self, request: ClaimRequest) -> None:
        """The store did not answer: if this was for a probe, there is none."""
        circuit = self._probed_by(request)
        if circuit is not None:
            circuit.end_probe(None)

    # --- what a claim brought -------------------------------------------------------------------------

    def claimed(self, request: ClaimRequest, claims: Sequence[Claim]) -> tuple[Sequence[Claim], Sequence[Refused]]:
        """Which may run, and which go back, and how."""
        if not self._shared.tripped or not self._queues:
            return claims, ()
        for claim in claims:
            self._shared.saw(claim.job.requester_id)
        circuit = self._probed_by(request)
        if circuit is not None:
            return self._choose_probe(circuit, claims)
        allowed: list[Claim] = []
        refused: list[Refused] = []
        for claim in claims:
            if self._may_begin(claim):
                allowed.append(claim)
            else:
                refused.append((claim, self._refusal(claim)))
        return allowed, refused

    def _choose_probe(self, circuit: Circuit, claims: Sequence[Claim]) -> tuple[Sequence[Claim], Sequence[Refused]]:
        """One of another requester than the last that failed, if there is one."""
        circuit.request = None
        others_first = sorted(claims, key=lambda claim: claim.job.requester_id == circuit.last_failed)
        for claim in others_first:
            if self._may_begin(claim, asking=circuit):
                return (claim,), [(rest, self._deferral(rest)) for rest in claims if rest is not claim]
        circuit.end_probe(None, pause_us=EMPTY_PAUSE_US)
        return (), [(claim, self._deferral(claim)) for claim in claims]

    def _may_begin(self, claim: Claim, asking: Circuit | None = None) -> bool:
        """Whether no circuit keeps it; if it may be the probe of some, it is from now on."""
        circuits = self._circuits_of(claim.job)
        if not all(circuit.is_due or circuit is asking for circuit in circuits):
            return False
        for circuit in circuits:
            circuit.begin_probe(self, lease=claim.lease)
        return True

    def refusal_of(self, claim: Claim) -> Outcome | None:
        """How a job that waits in the worker goes back, if a circuit has opened meanwhile."""
        return self._refusal(claim) if self._circuits_of(claim.job) else None

    def _refusal(self, claim: Claim) -> Outcome:
        """Back to its place, if the next claim leaves it there; otherwise for a while, or it would come at once."""
        job = claim.job
        circuits = self._circuits_of(job)
        if circuits and circuits[0].scope.for_all:
            queues, types = self._claimable(self._queues)
            if self._queue_of(job) not in queues or job.type not in types:
                return Released()
        return self._deferral(claim)

    def _deferral(self, claim: Claim) -> Outcome:
        circuits = self._circuits_of(claim.job)
        name = circuits[-1].presence.name if circuits else claim.job.type
        message = f"the circuit breaker of {name} is open: too many attempts failed. The job waits and is not charged"
        wait_us = self._shared.policy.cooldown_us
        return Failed(Failure(Category.SYSTEM, message, CIRCUIT_OPEN, unfit=True, retry_after_us=wait_us))

    # --- what came of it ------------------------------------------------------------------------------

    def record(self, ended: Sequence[AttemptRun]) -> None:
        """How attempts ended. Successes count only while something of their type fails."""
        if not self._queues or not ended:
            return
        shared = self._shared
        shared.saw(ended[0].claim.job.requester_id)
        if not shared.is_counting() and [type(a.outcome) for a in ended].count(Success) == len(ended):
            return
        for attempt in ended:
            job = attempt.claim.job
            shared.record(self._queue_of(job), attempt, self._handlers.places_of(job))
        if self._seen != shared.changes:
            self._publish_states()

    def lost(self, attempt: AttemptRun) -> None:
        """An attempt whose end nobody will write."""
        for circuit in self._circuits_of(attempt.claim.job):
            if circuit.probe == attempt.claim.lease:
                circuit.end_probe(None)

    def wait_s(self, poll_s: float) -> float:
        """How long to sleep at most: no longer than until the next probe is due."""
        if not self._shared.tripped:
            return poll_s
        due = [c.breaker.retry_in_us / 1e6 for c in self._for_all() if c.prober is None]
        return min([poll_s, *(max(SHORTEST_WAIT_S, wait_s) for wait_s in due)])

    @property
    def changes(self) -> int:
        """Grows whenever one of them opens or closes."""
        return self._shared.changes

    def tripped(self) -> tuple[TrippedBreaker, ...]:
        """Those that are not closed, the widest first; of very many the first ones."""
        circuits = [c for c in self._shared.tripped.values() if c.scope.queue in self._queues]
        circuits.sort(key=lambda c: (not c.scope.for_all, c.scope.place != ""))
        return tuple(c.presence for c in circuits[:BREAKERS_TOLD])

    def close(self) -> None:
        """The worker ends: its probes are somebody else's to make."""
        for circuit in tuple(self._shared.tripped.values()):
            if circuit.prober is self:
                circuit.end_probe(None)

    def _circuits_of(self, job: JobRow) -> list[Circuit]:
        if not self._shared.tripped or not self._queues:
            return []
        return self._shared.of(self._queue_of(job), job, self._handlers.places_of(job))

    def _queue_of(self, job: JobRow) -> str:
        """A list of `worker.queues` is a queue of its own to its jobs, and is claimed as one of the default queue's."""
        return job.queue if job.queue in self._queues else DEFAULT_QUEUE

    def _publish_states(self) -> None:
        """A queue has the state of its worst circuit."""
        self._seen = self._shared.changes
        worst = dict.fromkeys(self._queues, BreakerCode.CLOSED)
        for (queue, *_), circuit in self._shared.tripped.items():
            if queue in worst:
                worst[queue] = max(worst[queue], circuit.breaker.code)
        for queue, code in worst.items():
            if self._published.get(queue) is not code:
                self._published[queue] = code
                self._telemetry.breaker_state(queue, code)
