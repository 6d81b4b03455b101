"""A handler's signature: whether it takes the context, and its arguments as a msgspec type that checks them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, get_type_hints

import msgspec

from euterpe.model.errors import InvalidInput
from euterpe.model.submitting.references import NAME, ReferenceCollector, has_references
from euterpe.worker.handling.json_types import decoder_of, schema_of, to_json, to_json_with_references

HINT: Final = "use a dataclass, a msgspec struct or a pydantic model, or pass an id and load it in the handler"
NOT_JSON = (TypeError, ValueError, OverflowError, RecursionError)
_PATH = re.compile(r" - at `\$\.?([^`.\[]*)([^`]*)`$")
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.+)`")
_MISSING_FIELD = re.compile(r"Object missing required field `(.+)`")


class Injected(Enum):
    """The default of a parameter that the worker fills."""

    INJECTED = "filled from the lifespan"


INJECTED: Final = Injected.INJECTED


def injected() -> Any:  # the default of a parameter of any type
    """The default of a handler's parameter that the worker takes from the queue's lifespan. If the state has the
    annotated type, the parameter is the state itself. Otherwise it is the attribute with the name of the parameter. It
    is not an argument of the job.

    Raises InvalidInput when the worker starts, if the state does not have the value.

    Example:
        @queue.job("report.render")
        async def render(ctx: euterpe.Context, report_id: int, pool: Pool = euterpe.injected()) -> None: ...
    """
    return INJECTED


@dataclass(frozen=True, slots=True)
class Signature:
    """`arguments` is a struct made from the parameters; None means that the handler takes any JSON object."""

    bound: inspect.Signature
    """The parameters without the context."""
    names: tuple[str, ...]
    """Theirs, in order."""
    required: frozenset[str]
    injected: Mapping[str, Any]
    """Parameters that the worker fills from its lifespan, with their types."""
    takes_context: bool
    is_async: bool
    arguments: type[msgspec.Struct] | None
    returns: Any
    decoder: msgspec.json.Decoder[Any]

    def encode_plain(self, kwargs: dict[str, Any]) -> bytes | None:
        """The payload of the usual call: every argument by its name, in order, and none that stands for a result. None
        for any other call, or a wrong one: `encode` writes the former, and says what is wrong with the latter."""
        if self.arguments is None or tuple(kwargs) != self.names:
            return None
        try:
            payload = to_json(kwargs)
            if has_references(payload):
                return None
            self.decoder.decode(payload)
        except (*NOT_JSON, msgspec.ValidationError):
            return None
        return payload

    def encode(
        self, job_type: str, args: tuple[Any, ...], kwargs: dict[str, Any], collector: ReferenceCollector | None = None
    ) -> bytes:
        """The payload of a call; InvalidInput names the argument that does not fit. Jobs among the arguments become
        references to their results, where there is a book to note them in."""
        named = self._bind(job_type, args, kwargs)
        try:
            payload = to_json(named)
        except NOT_JSON as error:
            if collector is not None and any(not is_json(value) for value in named.values()):
                return self._encode_references(job_type, named, collector)
            raise _unwritable(job_type, named, error) from error
        if has_references(payload):
            raise InvalidInput("arguments", f"{NAME} is a reserved name (in an argument of {job_type})")
        if self.arguments is not None:
            try:
                self.decoder.decode(payload)
            except msgspec.ValidationError as error:
                name, reason = _culprit(str(error))
                raise InvalidInput(name, f"{reason} (an argument of {job_type})") from error
        return payload

    def _encode_references(self, job_type: str, named: dict[str, Any], collector: ReferenceCollector) -> bytes:
        try:
            payload = to_json_with_references(named, collector)
        except NOT_JSON as error:
            raise _unwritable(job_type, named, error) from error
        self._check_all_but_references(payload, "", job_type)
        return payload

    def _check_all_but_references(self, payload: bytes, prefix: str, job_type: str) -> None:
        """What an argument refers to is not there yet; every other one is checked as ever."""
        if self.arguments is None:
            return
        kinds = {field.name: field.type for field in msgspec.structs.fields(self.arguments)}
        arguments = msgspec.json.decode(payload, type=dict[str, msgspec.Raw])
        for name in (*(name for name in arguments if name not in kinds), *(self.required - arguments.keys())):
            wrong = "missing" if name in kinds else "unknown"
            raise InvalidInput(f"{prefix}{name}", f"is {wrong} (an argument of {job_type})")
        for name, value in arguments.items():
            if has_references(bytes(value)):
                continue
            try:
                decoder_of(kinds[name]).decode(value)
            except msgspec.ValidationError as error:
                inner, reason = _culprit(str(error))
                place = name if inner == "arguments" else f"{name}.{inner}"
                raise InvalidInput(f"{prefix}{place}", f"{reason} (an argument of {job_type})") from error

    def check(self, job_type: str, payload: bytes) -> None:
        """Whether JSON that somebody else wrote fits; InvalidInput names the argument inside the payload."""
        if has_references(payload):
            self._check_all_but_references(payload, "payload.", job_type)
            return
        try:
            self.decoder.decode(payload)
        except msgspec.ValidationError as error:
            name, reason = _culprit(str(error))
            field = "payload" if name == "arguments" else f"payload.{name}"
            raise InvalidInput(field, f"{reason} (an argument of {job_type})") from error

    def decode(self, payload: bytes) -> dict[str, Any]:
        """The keyword arguments of a stored call."""
        if self.arguments is None:
            decoded = msgspec.json.decode(payload)
            if not isinstance(decoded, dict):
                raise InvalidInput("payload", "is not a JSON object")
            return decoded
        return msgspec.structs.asdict(self.decoder.decode(payload))

    def take_bytes(self, payload: bytes) -> dict[str, Any]:
        """A payload that is no JSON goes to the argument named `payload`, as it is."""
        if not self.has_argument("payload"):
            raise InvalidInput("payload", "is bytes; the handler takes those in an argument named payload")
        return {"payload": payload}

    def has_argument(self, name: str) -> bool:
        return self.arguments is None or name in self.arguments.__struct_fields__

    def _bind(self, job_type: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if not args and self.arguments is not None:
            # Named arguments only, the usual call: a tenth of what `bind` takes, and the same order.
            if tuple(kwargs) == self.names:
                return kwargs
            named = {name: kwargs[name] for name in self.names if name in kwargs}
            if len(named) == len(kwargs) and named.keys() >= self.required:
                return named
        try:
            bound = self.bound.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidInput(f"arguments of {job_type}", str(error)) from None
        named = dict(bound.arguments)
        for parameter in self.bound.parameters.values():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                named.update(named.pop(parameter.name, {}))
        return named


def read_signature(job_type: str, function: Any) -> Signature:
    """InvalidInput for anything that cannot be a handler: a class, a method, a generator, a decorated job."""
    _check_is_function(function)
    parameters = list(inspect.signature(function).parameters.values())
    if parameters and parameters[0].name in ("self", "cls"):
        raise InvalidInput("handler", f"{function.__qualname__} is a method; a job type is a plain function")
    hints = _hints(function)
    takes_context = bool(parameters) and _is_context(parameters[0], hints)
    after_context = parameters[1:] if takes_context else parameters
    injected = {p.name: hints.get(p.name, Any) for p in after_context if p.default is INJECTED}
    rest = [parameter for parameter in after_context if parameter.name not in injected]
    arguments = _arguments_struct(job_type, function, rest, hints)
    return Signature(
        inspect.Signature(rest),
        tuple(parameter.name for parameter in rest),
        frozenset(parameter.name for parameter in rest if parameter.default is inspect.Parameter.empty),
        injected,
        takes_context,
        inspect.iscoroutinefunction(function),
        arguments,
        hints.get("return", Any),
        decoder_of(dict[str, Any] if arguments is None else arguments),
    )


def _check_is_function(function: Any) -> None:
    if isinstance(function, (staticmethod, classmethod)):
        raise InvalidInput("handler", "is a method; put @queue.job on a plain function")
    if inspect.isclass(function) or not callable(function):
        raise InvalidInput("handler", f"{function!r} is not a function")
    if not hasattr(function, "__qualname__") or not hasattr(function, "__module__"):
        raise InvalidInput("handler", f"{function!r} has no name of its own; wrap it in a `def`")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidInput("handler", f"{function.__qualname__} is a generator; a handler returns its result")


def _is_context(parameter: inspect.Parameter, hints: dict[str, Any]) -> bool:
    hint = hints.get(parameter.name)
    if hint is not None:
        return getattr(hint, "__name__", "") == "Context"
    return parameter.name in ("ctx", "context")


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError):
        return {}  # A hint that is only importable under TYPE_CHECKING: then arguments go unchecked.


def _arguments_struct(
    job_type: str, function: Callable[..., Any], parameters: list[inspect.Parameter], hints: dict[str, Any]
) -> type[msgspec.Struct] | None:
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
        msgspec.json.schema(struct, schema_hook=schema_of)  # Fails now on a type that JSON cannot carry, not at a job.
    except TypeError as error:
        name = next((name for name, kind in ((f[0], f[1]) for f in fields) if not _travels(kind)), None)
        which = "an argument" if name is None else f"argument {name}"
        raise InvalidInput(
            f"handler {function.__qualname__}", f"{which} cannot travel as JSON: {error}; {HINT}"
        ) from error
    return struct


def _travels(kind: Any) -> bool:
    try:
        msgspec.json.schema(kind, schema_hook=schema_of)
    except TypeError:
        return False
    return True


def _default(value: object) -> object:
    return msgspec.field(default_factory=lambda: copy(value)) if isinstance(value, (list, dict, set)) else value


def _unwritable(job_type: str, named: dict[str, Any], error: Exception) -> InvalidInput:
    name = next((name for name, value in named.items() if not is_json(value)), "arguments")
    return InvalidInput(name, f"cannot be written as JSON: {error} (an argument of {job_type})")


def is_json(value: object) -> bool:
    try:
        to_json(value)
    except NOT_JSON:
        return False
    return True


def _culprit(message: str) -> tuple[str, str]:
    """(argument, what is wrong with it) out of msgspec's words, whose path starts at the payload."""
    if (found := _UNKNOWN_FIELD.match(message)) or (found := _MISSING_FIELD.match(message)):
        return found.group(1), message
    path = _PATH.search(message)
    if path is None or not path.group(1):
        return "arguments", message
    return path.group(1) + path.group(2), message[: path.start()]
