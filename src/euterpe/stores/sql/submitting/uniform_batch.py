"""Storing jobs of one kind: a single one, or a batch that differs in ids and payloads only.

What they share is read once and sent once. That is a third of the time of a single submit on Postgres, and two thirds
of a batch's on SQLite.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Final

from msgspec.structs import astuple

from euterpe.model.submitting.batch import Draft
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.program import One, Program, one
from euterpe.stores.sql.statements import Family

AS_SAID: Final = (
    "requester_id", "queue", "type", "payload_format", "max_attempts", "run_at", "delay_us", "lifetime_us",
    "execution_timeout_us", "visibility_us", "correlation_id", "callback_url", "callback_events", "replay_of",
    "concurrency_key", "concurrency_limit",
)  # fmt: skip
"""Columns that take a submission's word as it is."""
_as_said: Final = attrgetter(*AS_SAID)
_PAYLOAD: Final = Submission.__struct_fields__.index("payload")
_before_payload: Final = itemgetter(slice(0, _PAYLOAD))
_behind_payload: Final = itemgetter(slice(_PAYLOAD + 1, None))


def uniform_statement(drafts: Sequence[Draft], family: Family, channel: str | None = None) -> One | None:
    """The statement that stores them all; None where they differ in more. With a channel, a lone job's notifies."""
    shared = drafts[0].submission
    if len(drafts) > 1 and not _differ_in_payload_at_most([draft.submission for draft in drafts]):
        return None
    said = {
        "priority": shared.priority,
        "stages": shared.stages_json,
        "retry_policy": shared.retry_json,
        "tags": shared.tags_json,
        **dict(zip(AS_SAID, _as_said(shared), strict=True)),
    }
    if len(drafts) == 1:
        notified = {"channel": channel} if family == "postgres" else {}
        return one("insert_one", id=drafts[0].id, payload=shared.payload, **notified, **said)
    ids, payloads = [draft.id for draft in drafts], [draft.submission.payload for draft in drafts]
    return one("insert_uniform", id=ids, payload=payloads, **said)


def _differ_in_payload_at_most(submissions: Sequence[Submission]) -> bool:
    """Without a line of Python for each of them: this is asked for every job that is submitted."""
    said = list(map(astuple, submissions))
    before, behind = _before_payload(said[0]), _behind_payload(said[0])
    return all(map(before.__eq__, map(_before_payload, said))) and all(map(behind.__eq__, map(_behind_payload, said)))


def insert_uniform(statement: One, family: Family) -> Program[tuple[str, int]]:
    """Their state and the time of their creation, which are the same for all."""
    rows = yield statement
    if family == "sqlite" and statement.name == "insert_uniform":
        # A RETURNING would come back row by row.
        rows = yield one("stored_as", id=statement.params["id"][0])
    return rows[0][0], rows[0][1]
