"""What an answer to a delivery means: delivered, worth another try, or over. Pure."""

from __future__ import annotations

from random import Random
from typing import Final

from euterpe.egress.client import EgressReply
from euterpe.egress.errors import EgressError, EgressFailure, EgressRefusal, EgressRefused
from euterpe.model.events.outbox import Delivery, OutboxEvent
from euterpe.model.failures.backoff import SECOND_US, Backoff
from euterpe.model.failures.http_error import retry_after_us

ANSWER_LIMIT: Final = 1024
LOST: Final = "lost_lease"
TOO_LARGE: Final = str(EgressRefusal.ANSWER_TOO_LARGE)
BLOCKED: Final = frozenset(map(str, EgressRefusal)) - {TOO_LARGE}
UNREACHABLE: Final = frozenset(map(str, EgressFailure))
BY_RULES: Final = frozenset({EgressRefusal.ADDRESS, EgressRefusal.PORT})
"""Refused because the egress rules of this process forbid it. Those of another process may allow it."""
FORBIDDEN_TRIES: Final = 3
"""So often it is left to another process, which is long enough for one to take it; then it is given up."""
DELIVERY_BACKOFF: Final = Backoff(initial_us=5 * SECOND_US, max_us=3600 * SECOND_US)


class DeliveryPolicy:
    """By the contract: 2xx is delivered, 410 ends it, all else is tried again until the budget is spent."""

    def __init__(self, max_attempts: int, rng: Random, backoff: Backoff = DELIVERY_BACKOFF) -> None:
        self._max_attempts = max_attempts
        self._rng = rng
        self._backoff = backoff

    def of_reply(self, event: OutboxEvent, reply: EgressReply, now_s: float) -> Delivery:
        answer = _answer_to_keep(reply)
        if 200 <= reply.status < 300:
            return Delivery(
                event_id=event.id,
                claim_version=event.claim_version,
                state="completed",
                outcome="delivered",
                http_status=reply.status,
                answer=answer,
            )
        error = f"the receiver answered {reply.status}"
        if reply.status == 410:
            return self._over(event, "gone", error, reply.status, answer)
        wait_us = retry_after_us(reply.headers.get("retry-after"), now_s) if reply.status in (429, 503) else 0
        return self._again(event, "refused", error, reply.status, answer, wait_us)

    def of_error(self, event: OutboxEvent, error: EgressError) -> Delivery:
        if isinstance(error, EgressRefused):
            return self._of_refusal(event, error)
        return self._again(event, str(getattr(error, "reason", "failed")), str(error))

    def _of_refusal(self, event: OutboxEvent, refusal: EgressRefused) -> Delivery:
        if refusal.reason not in BY_RULES:
            return self._over(event, str(refusal.reason), str(refusal))
        if event.attempt_count >= min(FORBIDDEN_TRIES, self._max_attempts):
            why = f"{refusal}; the egress rules of every process that took it forbid it: allow it there, then redeliver"
            return self._over(event, str(refusal.reason), why)
        return Delivery(
            event_id=event.id,
            claim_version=event.claim_version,
            state="retrying",
            outcome=str(refusal.reason),
            delay_us=SECOND_US,
            error=f"{refusal}; it is left to a process whose egress rules allow it",
        )

    def of_spent(self, event: OutboxEvent) -> Delivery | None:
        """An event that was claimed as often as it may be, by dispatchers that never came to settle it. It is not sent
        again: whatever ended them may be in it."""
        if event.attempt_count <= self._max_attempts:
            return None
        return self._over(event, LOST, "its dispatchers were lost every time; no attempts are left")

    def of_missing_secret(self, event: OutboxEvent, why: str) -> Delivery:
        return self._again(event, "no_secret", why)

    def of_own_failure(self, event: OutboxEvent, why: str) -> Delivery:
        return self._again(event, "failed", why)

    def _again(
        self,
        event: OutboxEvent,
        outcome: str,
        error: str,
        http_status: int | None = None,
        answer: str | None = None,
        wait_us: int = 0,
    ) -> Delivery:
        if event.attempt_count >= self._max_attempts:
            return self._over(event, outcome, f"{error}; no attempts are left", http_status, answer)
        bucket = event.attempt_count + 2 if http_status == 429 else event.attempt_count
        return Delivery(
            event_id=event.id,
            claim_version=event.claim_version,
            state="retrying",
            outcome=outcome,
            delay_us=max(self._backoff.full_jitter_us(bucket, self._rng), wait_us),
            http_status=http_status,
            answer=answer,
            error=error,
        )

    def _over(
        self, event: OutboxEvent, outcome: str, error: str, http_status: int | None = None, answer: str | None = None
    ) -> Delivery:
        return Delivery(
            event_id=event.id,
            claim_version=event.claim_version,
            state="dead_letter",
            outcome=outcome,
            http_status=http_status,
            answer=answer,
            error=error,
        )


def _answer_to_keep(reply: EgressReply) -> str | None:
    """The beginning of the answer, for the log of deliveries. Who may submit can read that log, so what comes from a
    private address or from this machine is not kept: it may be the answer of something that only we can reach."""
    if not reply.from_public:
        return None
    return reply.body_prefix[:ANSWER_LIMIT].decode("utf-8", "replace").replace("\x00", "")


def is_left_to_others(delivery: Delivery) -> bool:
    """Whether this process may not send the event, and another one might."""
    return delivery.state == "retrying" and delivery.outcome in BY_RULES


def result_of(delivery: Delivery) -> str | None:
    """The label that a delivery counts under in the metrics; None for one that was never tried."""
    if delivery.refund or delivery.outcome == LOST:
        return None  # Given back, or lost with each of its dispatchers, which the sweeps have counted.
    if delivery.state == "completed":
        return "delivered"
    if delivery.http_status is not None or delivery.outcome == TOO_LARGE:
        return "rejected"
    if delivery.outcome in BLOCKED:
        return "blocked"
    return "unreachable" if delivery.outcome in UNREACHABLE else "other"


def given_back(event: OutboxEvent) -> Delivery:
    """Not sent after all (shutdown): the attempt is refunded."""
    return Delivery(
        event_id=event.id, claim_version=event.claim_version, state="retrying", outcome="released", refund=True
    )
