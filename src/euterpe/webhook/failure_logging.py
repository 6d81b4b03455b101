"""What the log tells of deliveries that failed: which event, to whom, why, and when it is sent again."""

from __future__ import annotations

import logging
from urllib.parse import urlsplit

from euterpe.model.events.outbox import Delivery, OutboxEvent
from euterpe.webhook.policy import is_left_to_others

log = logging.getLogger("euterpe.outbox")


def report_failure(event: OutboxEvent, delivery: Delivery) -> None:
    """A warning if it is sent again, an error if it is given up. The receiver's host is named, its path may be secret;
    what it answered is in the delivery log of the database."""
    if delivery.refund:
        return
    keys = {
        "event_id": event.id,
        "job_id": event.job_id,
        "type": event.type,
        "requester_id": event.requester_id,
        "host": urlsplit(event.origin).hostname,
        "attempt": event.attempt_count,
        "error_code": delivery.outcome,
        "status": delivery.http_status,
    }
    if is_left_to_others(delivery):
        log.warning("the egress rules of this process forbid a webhook; it is left to another process", extra=keys)
    elif delivery.state == "dead_letter":
        log.error("a webhook could not be delivered and is given up: `euterpe outbox redeliver` sends it", extra=keys)
    else:
        keys["delay_ms"] = delivery.delay_us // 1000
        log.warning("a webhook could not be delivered, retrying", extra=keys)
