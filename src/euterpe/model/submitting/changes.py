"""What may be changed of a job after it was submitted: how urgent it is, and what its requester calls it by."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from euterpe.model.errors import IllegalTransition, InvalidInput
from euterpe.model.job import JobRow
from euterpe.model.state import WAITING
from euterpe.model.submitting.submission import KEY_LIMIT, check_callback, check_priority, check_tags, check_text


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What is UNSET stays as it is; None takes a value away. Type and payload never change."""

    priority: int | UnsetType = UNSET
    tags: dict[str, str] | UnsetType | None = UNSET
    correlation_id: str | UnsetType | None = UNSET
    callback_url: str | UnsetType | None = UNSET


def check_changes(changes: Changes) -> None:
    """The rules of a submission; InvalidInput names the field."""
    if all(getattr(changes, name) is UNSET for name in Changes.__struct_fields__):
        raise InvalidInput("changes", f"say at least one of {', '.join(Changes.__struct_fields__)}")
    if changes.priority is not UNSET:
        check_priority(changes.priority)
    if changes.tags is not UNSET and changes.tags is not None:
        check_tags(changes.tags)
    if changes.correlation_id is not UNSET and changes.correlation_id is not None:
        check_text("correlation_id", changes.correlation_id, KEY_LIMIT)
    if changes.callback_url is not UNSET and changes.callback_url is not None:
        check_callback(changes.callback_url)


def changed(job: JobRow, changes: Changes) -> JobRow:
    """The job as it is then; IllegalTransition for the priority of one that no longer waits."""
    values = {name: value for name in Changes.__struct_fields__ if (value := getattr(changes, name)) is not UNSET}
    if values.get("priority", job.priority) != job.priority and job.state not in WAITING:
        raise IllegalTransition(job.state, job.state, "its priority can be changed only while it waits")
    if "tags" in values:
        tags = values.pop("tags")
        values["tags_json"] = msgspec.json.encode(tags).decode() if tags else None
    return msgspec.structs.replace(job, **values)
