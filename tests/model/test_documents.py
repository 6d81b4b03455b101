"""What the outside sees of a job: its document, its event bodies, its attempt ids and times."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.model.events.event import event_of, has_event
from euterpe.model.job import Lease, attempt_id, parse_attempt_id
from euterpe.model.reading.document import job_document, rfc3339, status_document
from euterpe.model.state import State
from euterpe.model.submitting.submission import LATEST_US
from tests.model.samples import CREATED_US, JOB_ID, a_job

CALLBACK = "https://receiver.example/hook"
EVENT_ID = "9d4d1a5e-0000-4000-8000-000000000000"


def decoded(document: dict[str, Any]) -> dict[str, Any]:
    """As it leaves the house."""
    seen: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    return seen


def test_a_job_document_has_every_field_that_the_interfaces_promise() -> None:
    promised = {
        "job_id", "type", "queue", "state", "stage", "status", "priority", "attempt", "max_attempts", "payload",
        "result", "error", "progress", "tags", "correlation_id", "created_at", "updated_at", "scheduled_at",
        "started_at", "completed_at", "callback_url",
    }  # fmt: skip
    assert promised <= set(job_document(a_job()))


def test_the_metadata_of_003_is_shown_with_rfc_3339_times() -> None:
    shown = decoded(job_document(a_job(tags_json='{"team":"a"}', correlation_id="c", progress=40.0)))
    assert (shown["job_id"], shown["state"], shown["status"], shown["priority"]) == (
        JOB_ID,
        "running",
        "claimed",
        "normal",
    )
    assert shown["created_at"] == "2026-01-01T00:00:00.000000Z"
    assert (shown["attempt"], shown["max_attempts"]) == (1, 3)
    assert (shown["tags"], shown["correlation_id"]) == ({"team": "a"}, "c")
    assert shown["progress"] == {"percent": 40.0, "message": None}
    assert shown["completed_at"] is None


def test_json_is_shown_as_it_is_and_bytes_as_base64() -> None:
    shown = decoded(job_document(a_job(payload=b'{"n": [1, 2]}', result=b'"ok"', error='{"code":"x"}')))
    assert (shown["payload"], shown["result"], shown["error"]) == ({"n": [1, 2]}, "ok", {"code": "x"})
    binary = decoded(job_document(a_job(payload=b"\x00\xff", payload_format="bytes")))
    assert binary["payload"] == {"base64": "AP8="}


def test_a_status_document_never_carries_payload_or_result() -> None:
    assert not {"payload", "result", "checkpoint"} & set(status_document(a_job(result=b"1")))


# --- events --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", list(State))
def test_ends_are_told_always_and_steps_on_the_way_only_if_asked_for(state: State) -> None:
    ends = {State.COMPLETED, State.FAILED, State.DEAD_LETTER, State.CANCELLED}
    steps = {State.RUNNING, State.RETRYING}
    assert has_event(a_job(state=state, callback_url=CALLBACK)) == (state in ends | steps)
    assert has_event(a_job(state=state, callback_url=CALLBACK, callback_events="terminal")) == (state in ends)
    assert not has_event(a_job(state=state))


def body_of(**changes: Any) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.json.decode(event_of(a_job(callback_url=CALLBACK, **changes), EVENT_ID).body)
    return body


def test_an_event_carries_its_id_kind_place_and_job() -> None:
    event = event_of(a_job(callback_url=CALLBACK, transitions=7), EVENT_ID)
    body = msgspec.json.decode(event.body)
    assert (event.event_id, event.job_id, event.url, event.sequence, event.type) == (
        EVENT_ID,
        JOB_ID,
        CALLBACK,
        7,
        "job.running",
    )
    assert (body["event_id"], body["type"], body["sequence"], body["payload_version"]) == (
        EVENT_ID,
        "job.running",
        7,
        1,
    )
    assert body["job"]["job_id"] == JOB_ID
    assert not {"outputs", "error"} & set(body)


def test_a_success_carries_outputs_and_no_error() -> None:
    body = body_of(state=State.COMPLETED, result=b'{"files": 2}')
    assert body["outputs"] == {"files": 2}
    assert "error" not in body
    assert body_of(state=State.COMPLETED)["outputs"] is None


@pytest.mark.parametrize("state", [State.FAILED, State.DEAD_LETTER, State.CANCELLED])
def test_a_bad_end_carries_the_normalized_error_and_no_outputs(state: State) -> None:
    body = body_of(state=state, error='{"code":"x","category":"permanent"}')
    assert body["error"] == {"code": "x", "category": "permanent"}
    assert "outputs" not in body


# --- ids and times -------------------------------------------------------------------------------------


@given(st.integers(1, 2**62))
def test_an_attempt_is_named_by_its_job_and_claim(version: int) -> None:
    assert parse_attempt_id(attempt_id(JOB_ID, version)) == (JOB_ID, version)
    assert Lease(JOB_ID, version, 0).attempt_id == attempt_id(JOB_ID, version)


@pytest.mark.parametrize("text", ["", ":", ":1", "x", "x:", "x:y", "x:-1", "x:1.5", "x:²"])
def test_any_other_text_is_no_attempt_id(text: str) -> None:
    assert parse_attempt_id(text) is None


def test_a_job_knows_its_attempt_and_the_one_before() -> None:
    assert (a_job(claim_version=0).attempt_id, a_job(claim_version=0).previous_attempt_id) == (None, None)
    assert (a_job(claim_version=1).attempt_id, a_job(claim_version=1).previous_attempt_id) == (f"{JOB_ID}:1", None)
    assert a_job(claim_version=3).previous_attempt_id == f"{JOB_ID}:2"


def test_a_cancel_request_counts_only_for_the_claim_that_it_saw() -> None:
    assert a_job(claim_version=2, cancel_version=2).cancel_requested
    assert not a_job(claim_version=3, cancel_version=2).cancel_requested
    assert not a_job().cancel_requested


@given(st.integers(0, LATEST_US))
def test_every_time_that_can_be_stored_has_an_rfc_3339_form(at_us: int) -> None:
    text = rfc3339(at_us)
    assert text is not None
    assert len(text) == len("2026-01-01T00:00:00.000000Z")
    assert text.endswith(f".{at_us % 1_000_000:06d}Z")


def test_no_time_stays_no_time() -> None:
    assert rfc3339(None) is None
    assert rfc3339(CREATED_US + 1) == "2026-01-01T00:00:00.000001Z"
