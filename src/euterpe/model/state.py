"""States, the table of legal moves, and the status words of the HTTP edge. All of it is data.

Anything that is not in `MOVES` is refused by `check_move`; the engines' SQL only ever writes moves that
were checked here, and guards each with a compare-and-set.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from euterpe.model.errors import IllegalTransition


class State(StrEnum):
    """The state of a job. The last four are final."""

    PENDING = "pending"
    SCHEDULED = "scheduled"
    DELAYED = "delayed"
    RUNNING = "running"
    RETRYING = "retrying"
    COMPLETED = "completed"
    FAILED = "failed"
    DEAD_LETTER = "dead_letter"
    CANCELLED = "cancelled"


class By(StrEnum):
    """Who may make a move."""

    SUBMIT = "submit"
    WORKER = "worker"
    SWEEP = "sweep"
    OPERATOR = "operator"
    DEPENDENCY = "dependency"


STATES: Final[dict[str, State]] = {state.value: state for state in State}
"""By name: a look here takes a tenth of what `State(name)` does."""
TERMINAL: Final = frozenset({State.COMPLETED, State.FAILED, State.DEAD_LETTER, State.CANCELLED})
WAITING: Final = frozenset({State.PENDING, State.SCHEDULED, State.DELAYED, State.RETRYING})
LIVE: Final = WAITING | {State.RUNNING}

_S, _B = State, By
MOVES: Final[dict[tuple[State, State], frozenset[By]]] = {
    (_S.PENDING, _S.SCHEDULED): frozenset({_B.SUBMIT, _B.DEPENDENCY}),
    (_S.PENDING, _S.DELAYED): frozenset({_B.SUBMIT, _B.DEPENDENCY}),
    (_S.PENDING, _S.FAILED): frozenset({_B.SUBMIT, _B.DEPENDENCY}),
    (_S.PENDING, _S.DEAD_LETTER): frozenset({_B.SUBMIT, _B.DEPENDENCY, _B.SWEEP}),
    (_S.PENDING, _S.CANCELLED): frozenset({_B.SUBMIT, _B.DEPENDENCY, _B.OPERATOR}),
    (_S.DELAYED, _S.SCHEDULED): frozenset({_B.SWEEP}),
    (_S.DELAYED, _S.CANCELLED): frozenset({_B.OPERATOR}),
    (_S.DELAYED, _S.DEAD_LETTER): frozenset({_B.SWEEP}),
    (_S.SCHEDULED, _S.RUNNING): frozenset({_B.WORKER}),
    (_S.SCHEDULED, _S.CANCELLED): frozenset({_B.OPERATOR}),
    (_S.SCHEDULED, _S.DEAD_LETTER): frozenset({_B.SWEEP}),
    (_S.RUNNING, _S.RUNNING): frozenset({_B.WORKER}),
    (_S.RUNNING, _S.COMPLETED): frozenset({_B.WORKER}),
    (_S.RUNNING, _S.FAILED): frozenset({_B.WORKER}),
    (_S.RUNNING, _S.RETRYING): frozenset({_B.WORKER, _B.SWEEP}),
    (_S.RUNNING, _S.SCHEDULED): frozenset({_B.WORKER}),
    (_S.RUNNING, _S.DEAD_LETTER): frozenset({_B.WORKER, _B.SWEEP}),
    (_S.RUNNING, _S.CANCELLED): frozenset({_B.WORKER, _B.OPERATOR, _B.SWEEP}),
    (_S.RETRYING, _S.SCHEDULED): frozenset({_B.SWEEP}),
    (_S.RETRYING, _S.DEAD_LETTER): frozenset({_B.SWEEP}),
    (_S.RETRYING, _S.CANCELLED): frozenset({_B.OPERATOR}),
    (_S.FAILED, _S.SCHEDULED): frozenset({_B.OPERATOR}),
    (_S.FAILED, _S.DEAD_LETTER): frozenset({_B.OPERATOR}),
}

INITIAL: Final = frozenset({State.PENDING, State.SCHEDULED, State.DELAYED})


def check_move(source: State, target: State, by: By) -> None:
    """Raise unless the table lets `by` move a job from `source` to `target`."""
    allowed = MOVES.get((source, target))
    if allowed is None:
        raise IllegalTransition(source, target)
    if by not in allowed:
        raise IllegalTransition(source, target, f"not by {by}, only by {' or '.join(sorted(allowed))}")


# --- stages: where a running job is -------------------------------------------------------------------

CLAIMED: Final = "claimed"
PLAIN_STAGES: Final[tuple[str, ...]] = (CLAIMED,)
TRANSCODE: Final = "transcode"
"""The job type that is built in. Claims that name no types are not given one (`type <> 'transcode'` in SQL)."""
TRANSCODE_STAGES: Final[tuple[str, ...]] = (CLAIMED, "fetching", "processing", "uploading")


def stage_ordinal(stages: tuple[str, ...], stage: str) -> int:
    """The position of `stage` in the declared order; an undeclared name is an illegal move."""
    try:
        return stages.index(stage)
    except ValueError:
        raise IllegalTransition(State.RUNNING, stage, f"declared stages are {', '.join(stages)}") from None


def check_advance(stages: tuple[str, ...], current: str, target: str) -> int:
    """Stages are walked one by one in the declared order, never back; returns the target's ordinal."""
    ordinal, here = stage_ordinal(stages, target), stage_ordinal(stages, current)
    if ordinal < here:
        raise IllegalTransition(current, target, "stages never move back")
    if ordinal > here + 1:
        raise IllegalTransition(current, target, f"the next stage is {stages[here + 1]}")
    return ordinal


# --- status: 000's word for (state, stage), used by the HTTP edge alone --------------------------------

STATUS_MOVES: Final[frozenset[tuple[str, str]]] = frozenset(
    {
        ("queued", "claimed"),
        ("claimed", "fetching"),
        ("fetching", "processing"),
        ("processing", "uploading"),
        ("uploading", "succeeded"),
        *((stage, end) for stage in TRANSCODE_STAGES for end in ("queued", "failed")),
        ("failed", "queued"),
        ("failed", "dead_letter"),
    }
)


def status(state: State, stage: str | None) -> str:
    """000's status of a job: waiting states are `queued`, a running job is where its stage is."""
    if state in WAITING:
        return "queued"
    if state is State.RUNNING:
        return stage or CLAIMED
    return "succeeded" if state is State.COMPLETED else str(state)


def status_path(source: State, stage: str | None, target: State, target_stage: str | None = None) -> Iterator[str]:
    """The statuses a single write passes through, first to last, so that 000's table holds hop by hop.

    One write may hop over intermediate words: completing from an early stage passes the stages after it,
    and dead-lettering a running job passes `failed` (000 section 3). One write, one event.
    """
    start, end = status(source, stage), status(target, target_stage)
    yield start
    if source is State.RUNNING:
        here = TRANSCODE_STAGES.index(start)
        last = len(TRANSCODE_STAGES) if target is State.COMPLETED else 0
        if target is State.RUNNING:
            last = TRANSCODE_STAGES.index(end)
        yield from TRANSCODE_STAGES[here + 1 : last]
        if target is State.DEAD_LETTER:
            yield "failed"
    if end != start:
        yield end
