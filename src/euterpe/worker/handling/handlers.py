"""What a worker can run: job types by name, each with its function and how to call it.

Arguments are checked by msgspec against the function's own signature, at submit and again before the call, so a
wrong argument fails where it was written and never deep inside a handler.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from msgspec.structs import asdict

from euterpe.model.errors import InvalidInput
from euterpe.model.job import JobRow
from euterpe.model.json_depth import MOST_LEVELS, is_too_deep
from euterpe.model.submitting.references import ReferenceCollector
from euterpe.worker.failures import BadPayload, UnstorableResult, text_of
from euterpe.worker.handling.json_types import to_json
from euterpe.worker.handling.signature import Signature, read_signature

Mode = Literal["async", "thread", "process"]


@dataclass(frozen=True, slots=True)
class Handler:
    """One job type."""

    type: str
    function: Callable[..., Any]
    mode: Mode
    signature: Signature
    timeout_us: int | None = None
    worker_limit: int | None = None
    """How many of them run at once in one worker; None: as many as it has slots."""
    places: Callable[[JobRow], Collection[str]] | None = None
    """The hosts or stores that a job needs, by the names that its failures give them."""

    @property
    def takes_context(self) -> bool:
        return self.signature.takes_context

    @property
    def returns(self) -> Any:  # an annotation, of any form
        return self.signature.returns

    def encode(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], collector: ReferenceCollector | None = None
    ) -> bytes:
        """The payload of a call; InvalidInput names the argument that does not fit."""
        return self.signature.encode(self.type, args, kwargs, collector)

    def has_argument(self, name: str) -> bool:
        return self.signature.has_argument(name)

    def arguments_of(self, job: JobRow) -> dict[str, Any]:
        """The keyword arguments of a stored call. BadPayload: it does not fit this version of the handler."""
        try:
            signature = self.signature
            if job.payload_format == "bytes":
                return signature.take_bytes(job.payload)
            if signature.arguments is not None:  # As `decode` does; most handlers, and a call less for each job.
                return asdict(signature.decoder.decode(job.payload))
            return signature.decode(job.payload)
        except Exception as error:  # any type of the user's may refuse in its own way
            raise BadPayload(f"the payload does not fit {self.type}: {text_of(error)}") from error


@dataclass(slots=True)
class Handlers:
    """The registry of one queue."""

    by_type: dict[str, Handler] = field(default_factory=dict)
    types: tuple[str, ...] = ()
    limits: dict[str, int] = field(default_factory=dict)
    """The types with a limit in one worker."""

    def add(self, handler: Handler) -> None:
        known = self.by_type.get(handler.type)
        if known is not None and not _same_function(known.function, handler.function):
            raise InvalidInput("type", f"{handler.type!r} is already the name of {known.function.__qualname__}")
        self.by_type[handler.type] = handler
        self.types = tuple(self.by_type)
        self.limits.pop(handler.type, None)
        if handler.worker_limit is not None:
            self.limits[handler.type] = handler.worker_limit

    def name_places(self, job_type: str, places: Callable[[JobRow], Collection[str]]) -> None:
        self.by_type[job_type] = replace(self.by_type[job_type], places=places)

    def places_of(self, job: JobRow) -> Collection[str]:
        """What a circuit breaker may have for this job alone. A payload that cannot be read needs nothing."""
        handler = self.by_type.get(job.type)
        if handler is None or handler.places is None:
            return ()
        try:
            return handler.places(job)
        except Exception:  # noqa: BLE001  # the attempt will tell what is wrong with the payload
            return ()

    def __getitem__(self, job_type: str) -> Handler:
        return self.by_type[job_type]


def handler_of(
    job_type: str,
    function: Callable[..., Any],
    *,
    process: bool = False,
    timeout_us: int | None = None,
    worker_limit: int | None = None,
) -> Handler:
    """Read a function: does it take the context, what are its arguments, how must it be run."""
    signature = read_signature(job_type, function)
    if signature.is_async and process:
        raise InvalidInput("process", f"{function.__qualname__} is async; a process handler is a plain `def`")
    if process and "<" in function.__qualname__:
        raise InvalidInput(
            "process", f"{function.__qualname__} cannot be imported by another process; define it at the module's top"
        )
    if process and signature.injected:
        raise InvalidInput(
            "process",
            f"{function.__qualname__} asks for {next(iter(signature.injected))}; no lifespan reaches a process",
        )
    if worker_limit is not None and (type(worker_limit) is not int or worker_limit < 1):
        raise InvalidInput("worker_limit", f"must be a whole number of at least 1, not {worker_limit!r}")
    mode: Mode = "async" if signature.is_async else "process" if process else "thread"
    return Handler(job_type, function, mode, signature, timeout_us, worker_limit)


def encode_result(handler: Handler, value: object, limit: int) -> bytes:
    """A result as JSON; too large or not encodable is a permanent failure of the job, told by its error."""
    try:
        encoded = to_json(value)
    except Exception as error:  # a type of the user's may refuse in its own way
        raise UnstorableResult(f"{handler.type} returned what JSON cannot carry: {text_of(error)}") from error
    if len(encoded) > limit:
        raise UnstorableResult(
            f"{handler.type} returned {len(encoded)} bytes; the limit is {limit}. Store it elsewhere, return where"
        )
    if is_too_deep(encoded):
        raise UnstorableResult(f"{handler.type} returned what is nested deeper than {MOST_LEVELS} levels; flatten it")
    return encoded


def _same_function(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """The same object, or the same definition loaded twice (a reloaded module, a notebook's cell run again)."""
    if one is other:
        return True
    return "<" not in one.__qualname__ and (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)
