"""Which changes of a job are told to its callback, and under which family of names: what `callback_events` says.

`all` and `terminal` tell of states as `job.<state>`. `transcode.*` tells of every status as `transcode.<status>`: a job
type with stages of its own has words of its own for where a job is. It is data on the job, so whoever moves the job,
a worker or a sweep of another process, writes the same event.
"""

from __future__ import annotations

import re
from typing import Final

from euterpe.model.state import TERMINAL, State

EVENT_STATES: Final = frozenset({State.RUNNING, State.RETRYING, *TERMINAL})
"""Waiting states are bookkeeping: the requester learnt of them from the answer to its submission."""
EVENT_STATES_OF_FAMILY: Final = EVENT_STATES | {State.SCHEDULED}
"""A job that is given back, or retried by hand, is queued again."""
TERMINAL_ONLY: Final = "terminal"
"""A job with such a callback has one event, when it ends."""
WITH_STACK: Final = "_with_stack"
"""Behind `all` and `terminal`: errors in the events have the traceback, which names paths of the server."""
OF_EVERY_JOB: Final = ("all", TERMINAL_ONLY, f"all{WITH_STACK}", f"{TERMINAL_ONLY}{WITH_STACK}")

_FAMILY: Final = re.compile(r"(?!job\.)([a-z][a-z0-9_]{0,30})\.\*", re.ASCII)


def family_of(callback_events: object) -> str | None:
    """`transcode` for `transcode.*`; None for the states that every job has."""
    if callback_events in OF_EVERY_JOB or not isinstance(callback_events, str):
        return None
    found = _FAMILY.fullmatch(callback_events)
    return found.group(1) if found else None


def has_event_in(state: State, callback_events: str) -> bool:
    """Whether entering this state is worth an event to a job with a callback."""
    if state in TERMINAL:
        return True
    if callback_events.removesuffix(WITH_STACK) == "all":
        return state in EVENT_STATES
    return state in EVENT_STATES_OF_FAMILY and family_of(callback_events) is not None
