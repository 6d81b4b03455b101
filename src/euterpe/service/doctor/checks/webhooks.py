"""Checks of webhook events."""

from __future__ import annotations

from typing import Final

from euterpe.model.diagnosis.facts import OutboxFacts
from euterpe.model.diagnosis.finding import Check, Complaint, warning
from euterpe.service.doctor.wording import MINUTE_US, age_text, listed

LATE_US: Final = 15 * MINUTE_US
SEVERAL: Final = 5


def dead_letters(facts: OutboxFacts) -> Complaint | None:
    if not facts.dead:
        return None
    return warning(
        f"{facts.dead:,} webhook events were given up",
        "`euterpe outbox list --state dead_letter` shows them, `euterpe outbox redeliver ID` sends one again",
    )


def dead_receivers(facts: OutboxFacts) -> Complaint | None:
    dead = [f"{receiver.origin} ({receiver.failing:,})" for receiver in facts.receivers if receiver.failing >= SEVERAL]
    if not dead:
        return None
    return warning(
        f"receivers that refuse, or do not answer: {listed(dead)}",
        "ask whoever runs them; `euterpe outbox list --state retrying` shows the events and their errors",
    )


def backlog(facts: OutboxFacts) -> Complaint | None:
    if facts.oldest_waiting_us < LATE_US:
        return None
    return warning(
        f"the oldest webhook event has waited for {age_text(facts.oldest_waiting_us)}",
        "start a process that delivers (`euterpe --role=outbox`), or raise outbox.concurrency",
    )


CHECKS: Final[tuple[Check[OutboxFacts], ...]] = (
    Check("outbox_dead_letters", "no webhook event was given up", dead_letters),
    Check("dead_receivers", "receivers take their events", dead_receivers),
    Check("outbox_backlog", "webhook events go out soon", backlog),
)
