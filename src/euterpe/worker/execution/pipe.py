"""What a worker and the process of a handler say to each other: one JSON line a message, both ways."""

from __future__ import annotations

from typing import Final

import msgspec

from euterpe.model.claims.attempt_log import LogLine
from euterpe.model.failures.failure import Failure
from euterpe.model.job import Claim
from euterpe.model.submitting.submission import Submission
from euterpe.observe.logs import LogSettings

LINE_LIMIT: Final = 64 * 1024 * 1024
"""Far above any payload, result or checkpoint that is let through, even in base64."""


class Serve(msgspec.Struct, frozen=True, tag_field="kind", tag="serve"):
    """The first line: which function to find, and where. argv and path are the worker's own, because the module may
    read its command line and must find its neighbours."""

    type: str
    module: str
    qualname: str
    argv: list[str]
    path: list[str]
    result_limit: int
    keeps_lines: bool = False
    """Whether what the handler logs shall be told to the worker."""
    logs: LogSettings | None = None
    """How the worker writes its log; None: that is the application's own affair."""


class PipeRun(msgspec.Struct, frozen=True, tag_field="kind", tag="run"):
    """Execute this claim; `deadline` is on the machine's monotonic clock."""

    claim: Claim
    deadline: float


class PipeStop(msgspec.Struct, frozen=True, tag_field="kind", tag="stop"):
    """The running attempt is asked to stop."""


class PipeAnswer(msgspec.Struct, frozen=True, tag_field="kind", tag="answer", omit_defaults=True):
    """To a `Told` or `Spawn`: done, or the error it met."""

    number: int
    value: str | None = None
    error: str | None = None


class ProgressMessage(msgspec.Struct, frozen=True, tag_field="kind", tag="told", omit_defaults=True):
    """News of the attempt."""

    number: int
    stage: str | None = None
    progress: float | None = None
    message: str | None = None
    checkpoint: bytes | None = None


class Logged(msgspec.Struct, frozen=True, tag_field="kind", tag="logged"):
    """The handler has logged a line. It travels at once: a process that is killed had no time to say goodbye."""

    line: LogLine


class Spawn(msgspec.Struct, frozen=True, tag_field="kind", tag="spawn"):
    """A child job of the running one."""

    number: int
    submission: Submission


class Returned(msgspec.Struct, frozen=True, tag_field="kind", tag="returned"):
    """What the handler returned; `stopped`: it did so because it was asked to stop."""

    value: msgspec.Raw
    stopped: bool = False


class Raised(msgspec.Struct, frozen=True, tag_field="kind", tag="raised"):
    """How the handler failed."""

    failure: Failure


class Unable(msgspec.Struct, frozen=True, tag_field="kind", tag="unable"):
    """This process cannot serve the handler at all, and ends."""

    reason: str


ToChild = Serve | PipeRun | PipeStop | PipeAnswer
FromChild = ProgressMessage | Logged | Spawn | Returned | Raised | Unable

_to_child: Final[msgspec.json.Decoder[ToChild]] = msgspec.json.Decoder(ToChild)
_from_child: Final[msgspec.json.Decoder[FromChild]] = msgspec.json.Decoder(FromChild)


def to_line(message: ToChild | FromChild) -> bytes:
    return msgspec.json.encode(message) + b"\n"


def read_to_child(line: bytes) -> ToChild:
    return _to_child.decode(line)


def read_from_child(line: bytes) -> FromChild:
    return _from_child.decode(line)
