"""What makes two requests the same: everything the user said but the key itself."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from euterpe.model.dependency import Dependency
from euterpe.model.failures.backoff import Backoff
from euterpe.model.failures.retry import RetryPolicy
from euterpe.model.state import TRANSCODE_STAGES
from euterpe.model.submitting.submission import Submission, idempotency_scope, request_hash
from euterpe.model.submitting.unique import Unique

BASE = Submission(type="t", tags={"a": "1", "b": "2"}, depends_on=("x", "y"))

OTHER: dict[str, Any] = {
    "type": "u",
    "payload": b"[]",
    "payload_format": "bytes",
    "queue": "q",
    "priority": 1,
    "delay_us": 1,
    "run_at": 1,
    "max_attempts": 4,
    "execution_timeout_us": 1,
    "visibility_us": 1,
    "lifetime_us": 1,
    "retry": RetryPolicy(Backoff(jitter=0.0)),
    "stages": TRANSCODE_STAGES,
    "correlation_id": "c",
    "tags": {"a": "2", "b": "2"},
    "depends_on": ("y", "x"),
    "dependency": Dependency.CHAIN,
    "callback_url": "https://x",
    "callback_events": "terminal",
    "concurrency_key": "k",
    "concurrency_limit": 1,
    "unique_key": "u",
}
NOT_SAID = {
    "idempotency_key": "the key itself",
    "idempotency_window_us": "how long the key is remembered; a release that changes it makes no conflicts",
    "requester_id": "part of the key's scope",
    "replay_of": "said by the system, not by the user",
    "expected_us": "said by the system, not by the user",
    "unique": "says something with a unique_key only; see below",
}


@pytest.mark.parametrize("field", OTHER)
def test_another_value_of_any_field_is_another_request(field: str) -> None:
    assert request_hash(msgspec.structs.replace(BASE, **{field: OTHER[field]})) != request_hash(BASE)


def test_the_key_and_its_scope_are_no_part_of_the_request() -> None:
    same = msgspec.structs.replace(BASE, idempotency_key="k", idempotency_window_us=7, requester_id="r", replay_of="z")
    assert request_hash(same) == request_hash(BASE)


def test_every_field_is_either_hashed_or_left_out_for_a_reason() -> None:
    assert set(Submission.__struct_fields__) == set(OTHER) | set(NOT_SAID)


def test_what_a_unique_key_does_is_part_of_the_request() -> None:
    waiting = msgspec.structs.replace(BASE, unique_key="u")
    active = msgspec.structs.replace(waiting, unique=Unique.ACTIVE)
    assert request_hash(waiting) != request_hash(active)


def test_the_order_of_tags_does_not_matter() -> None:
    assert request_hash(msgspec.structs.replace(BASE, tags={"b": "2", "a": "1"})) == request_hash(BASE)


def test_a_graphs_local_names_stand_for_ids_that_are_new_at_every_try() -> None:
    first = msgspec.structs.replace(BASE, depends_on=("id-1",))
    second = msgspec.structs.replace(BASE, depends_on=("id-2",))
    assert request_hash(first, ("#0",)) == request_hash(second, ("#0",))
    assert request_hash(first, ("#0",)) != request_hash(first, ("#1",))


def test_bytes_cannot_wander_between_the_fields_and_the_payload() -> None:
    one = Submission(type="t", payload=b"ab", correlation_id="c")
    two = Submission(type="t", payload=b"b", correlation_id="ca")
    assert request_hash(one) != request_hash(two)


def test_a_scope_keeps_requester_and_type_apart() -> None:
    scopes = {
        idempotency_scope(requester, job_type)
        for requester in ("a", "a/b", "1:a", "")
        for job_type in ("c", "b/c", "a/c", "")
    }
    assert len(scopes) == 16
