"""One body for many events: what each of them says is what it would say if it were made alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from euterpe.model.events.event import event_of
from euterpe.model.events.uniform_events import EventOfMany, event_of_many, told_of
from euterpe.model.job import JobRow
from euterpe.model.state import State
from euterpe.model.submitting.batch import new_ids
from tests.model.samples import JOB_ID, a_job

ANOTHER: dict[str, Any] = {
    "state": State.FAILED,
    "payload_format": "bytes",
    "result": b'{"another": true}',
    "error": '{"message": "another"}',
    "retry_policy": '{"kind": "constant"}',
    "stages_json": '["another"]',
    "tags_json": '{"another": "tag"}',
    "callback_events": "media.*",
    "depends_on": (JOB_ID,),
}
"""Values of fields that no text or number will do for."""
COMPLETED = {"state": State.COMPLETED, "callback_url": "https://receiver.example/hook", "callback_events": "terminal"}


def body_of(shared: EventOfMany, event_id: str, job_id: str) -> bytes:
    """As the statements put it together."""
    named = "".join(job_id + piece for piece in shared.after_job if piece is not None)
    return (shared.before_event + event_id + shared.before_job + named).encode()


def with_another(job: JobRow, field: str) -> JobRow:
    value = getattr(job, field)
    if field in ANOTHER:
        value = ANOTHER[field]
    elif field == "priority":
        value = 1
    elif isinstance(value, bool):
        value = not value
    elif isinstance(value, int | float):
        value += 1
    else:
        value = b"another" if isinstance(value, bytes) else "another"
    return msgspec.structs.replace(job, **{field: value})


@pytest.mark.parametrize("field", [name for name in JobRow.__struct_fields__ if name != "id"])
def test_jobs_that_are_told_of_alike_have_the_same_event(field: str) -> None:
    job = a_job(**COMPLETED, result=b"{}")
    another = with_another(job, field)
    assert another != job
    if told_of(another) == told_of(job):
        assert event_of(another, "e") == event_of(job, "e")


@pytest.mark.parametrize(
    "said",
    [
        COMPLETED,
        COMPLETED | {"result": b'{"files":["\xc3\xa9.mp3"]}', "claim_version": 3},
        COMPLETED | {"result": f'{{"mine":"{JOB_ID}"}}'.encode(), "tags_json": f'{{"of":"{JOB_ID}"}}'},
        COMPLETED | {"callback_events": "media.*", "result": b'{"outputs":[1]}'},
        {"callback_url": "https://receiver.example/hook", "callback_events": "all"},
        COMPLETED | {"state": State.FAILED, "error": '{"message":"no luck"}'},
    ],
    ids=["no result", "a retry", "its own id in what it says", "a family", "running", "failed"],
)
def test_a_body_of_pieces_is_the_body_of_its_job(said: dict[str, Any]) -> None:
    job = a_job(**said)
    shared = event_of_many(job)
    assert shared is not None
    for job_id in new_ids(3):
        another, event_id = msgspec.structs.replace(job, id=job_id), new_ids(1)[0]
        event = event_of(another, event_id)
        assert body_of(shared, event_id, job_id) == event.body
        told = msgspec.structs.replace(shared.event, event_id=event_id, job_id=job_id, body=event.body)
        assert told == event


@pytest.mark.parametrize("result", [b'"\xff"', b'"\0"', b'{"job":1}'], ids=["no text", "a zero", "a job in front"])
def test_what_cannot_be_put_together_of_pieces_is_made_one_by_one(result: bytes) -> None:
    assert event_of_many(a_job(**COMPLETED | {"callback_events": "media.*"}, result=b'{"job":1}')) is None
    if result != b'{"job":1}':
        assert event_of_many(a_job(**COMPLETED, result=result)) is None
