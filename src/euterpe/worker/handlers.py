"""What a worker can run: job types by name, each with its function and how to call it.

Arguments are checked by msgspec against the function's own signature, at submit and again before the call, so a
wrong argument fails where it was written and never deep inside a handler.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Literal, get_type_hints

import msgspec

from euterpe.model.errors import InvalidInput

ArgumentsType = type[msgspec.Struct]
Mode = Literal["async", "thread", "process"]


@dataclass(frozen=True, slots=True)
class Handler:
    """One job type. `arguments` is a struct made from the function's signature; None means any JSON object."""

    type: str
    function: Callable[..., Any]
    mode: Mode
    takes_context: bool
    arguments: ArgumentsType | None
    returns: Any = Any
    timeout_us: int | None = None
    stages: tuple[str, ...] | None = None

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """The payload of a call; InvalidInput names the argument that does not fit."""
        named = bind(self.function, self.takes_context, args, kwargs)
        try:
            payload = msgspec.json.encode(named)
            if self.arguments is not None:
                msgspec.json.decode(payload, type=self.arguments)
        except (msgspec.ValidationError, TypeError, ValueError, OverflowError) as error:
            raise InvalidInput(f"arguments of {self.type}", str(error)) from error
        return payload

    def decode(self, payload: bytes) -> dict[str, Any]:
        """The keyword arguments of a stored call."""
        if self.arguments is None:
            decoded = msgspec.json.decode(payload)
            if not isinstance(decoded, dict):
                raise InvalidInput(f"arguments of {self.type}", "the payload is not a JSON object")
            return decoded
        struct = msgspec.json.decode(payload, type=self.arguments)
        return {name: getattr(struct, name) for name in struct.__struct_fields__}


@dataclass(slots=True)
class Handlers:
    """The registry of one queue."""

    by_type: dict[str, Handler] = field(default_factory=dict)

    def add(self, handler: Handler) -> None:
        known = self.by_type.get(handler.type)
        if known is not None and known.function is not handler.function:
            raise InvalidInput("type", f"{handler.type!r} is already the name of {known.function.__qualname__}")
        self.by_type[handler.type] = handler

    def __getitem__(self, job_type: str) -> Handler:
        return self.by_type[job_type]

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(self.by_type)


def handler_of(
    job_type: str,
    function: Callable[..., Any],
    *,
    process: bool = False,
    timeout_us: int | None = None,
    stages: tuple[str, ...] | None = None,
) -> Handler:
    """Read a function's signature: does it take the context, what are its arguments, how must it be run."""
    if inspect.iscoroutinefunction(function):
        if process:
            raise InvalidInput("process", f"{function.__qualname__} is async; a process handler is a plain `def`")
        mode: Mode = "async"
    else:
        mode = "process" if process else "thread"
    parameters = list(inspect.signature(function).parameters.values())
    takes_context = bool(parameters) and _is_context(parameters[0], function)
    arguments = _arguments_struct(job_type, function, parameters[1:] if takes_context else parameters)
    returns = _hints(function).get("return", Any)
    return Handler(job_type, function, mode, takes_context, arguments, returns, timeout_us, stages)


def bind(
    function: Callable[..., Any], takes_context: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    signature = inspect.signature(function)
    try:
        bound = signature.bind(None, *args, **kwargs) if takes_context else signature.bind(*args, **kwargs)
    except TypeError as error:
        raise InvalidInput(f"arguments of {function.__qualname__}", str(error)) from None
    named = dict(bound.arguments)
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            named.update(named.pop(parameter.name, {}))
    if takes_context:
        named.pop(next(iter(signature.parameters)))
    return named


def _is_context(parameter: inspect.Parameter, function: Callable[..., Any]) -> bool:
    hint = _hints(function).get(parameter.name)
    if hint is not None:
        return getattr(hint, "__name__", "") == "Context"
    return parameter.name in ("ctx", "context")


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError):
        return {}  # A hint that is only importable under TYPE_CHECKING: then arguments go unchecked.


def _arguments_struct(
    job_type: str, function: Callable[..., Any], parameters: list[inspect.Parameter]
) -> type[msgspec.Struct] | None:
    hints = _hints(function)
    fields: list[Any] = []
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            return None
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
            raise InvalidInput(
                f"handler {function.__qualname__}", f"argument {parameter.name} must be passable by name"
            )
        hint = hints.get(parameter.name, Any)
        if parameter.default is inspect.Parameter.empty:
            fields.append((parameter.name, hint))
        else:
            fields.append((parameter.name, hint, _default(parameter.default)))
    try:
        struct = msgspec.defstruct(
            f"Arguments[{job_type}]", fields, kw_only=True, forbid_unknown_fields=True, module=__name__
        )
        msgspec.json.Decoder(struct)  # Fails now, and not at the first job, on a type that JSON cannot carry.
    except TypeError as error:
        raise InvalidInput(f"handler {function.__qualname__}", f"an argument cannot travel as JSON: {error}") from error
    return struct


def _default(value: Any) -> Any:
    return msgspec.field(default_factory=lambda: copy(value)) if isinstance(value, (list, dict, set)) else value


def encode_result(handler: Handler, value: Any, limit: int) -> bytes:
    """A result as JSON; too large or not encodable is a permanent failure of the job, told by its error."""
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UnstorableResult(f"{handler.type} returned what JSON cannot carry: {error}") from error
    if len(encoded) > limit:
        raise UnstorableResult(f"{handler.type} returned {len(encoded)} bytes; the limit is {limit}")
    return encoded


class UnstorableResult(Exception):
    """The handler's return value cannot be kept."""
