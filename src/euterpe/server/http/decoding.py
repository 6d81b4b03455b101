"""From bytes to typed input, or a refusal that points at what is wrong.

msgspec decodes and checks at once; its message says where, and that place becomes the JSON pointer. Text must not
hold NUL, which Postgres cannot store; the payload and result of a job are opaque and may.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NoReturn, TypeVar
from urllib.parse import parse_qsl

import msgspec
import msgspec.inspect

from euterpe.model.json_depth import MOST_LEVELS, is_too_deep
from euterpe.server.http.problems import Refusal, escaped

T = TypeVar("T", bound=msgspec.Struct)
Body = TypeVar("Body")

_PATH: Final = re.compile(r" - at `(?P<place>[^`]*)`$")
_STEP: Final = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>\d+)\]|\[\.\.\.\]")
_NAMED_FIELD: Final = re.compile(r"Object (?:contains unknown|missing required) field `(?P<name>[^`]*)`")
_WHOLE: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_ESCAPED_NUL: Final = b"\\u0000"


def decode_body(body: bytes, decoder: msgspec.json.Decoder[Body]) -> Body:
    """The body as its type; an empty one counts as `{}`, so that a POST without options needs none."""
    try:
        value = decoder.decode(body or b"{}")
    except msgspec.ValidationError as error:
        _refuse(error)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refusal(400, "malformed_json", f"the body is not valid JSON: {error}") from None
    except RecursionError:
        raise Refusal(400, "malformed_json", "the body is nested too deeply") from None
    if _ESCAPED_NUL in body and (pointer := _nul_in(value, "")) is not None:
        raise _nul(pointer)
    return value


def decode_query(query_string: bytes, wanted: type[T]) -> T:
    """The query as its type. An empty value is an absent one; a name may stand there once."""
    try:
        pairs = parse_qsl(query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50)
    except (ValueError, UnicodeDecodeError):
        raise Refusal(400, "malformed_query", "the query is not valid UTF-8, or has too many parameters") from None
    fields: dict[str, str | int] = {}
    numbers = _whole_numbers(wanted)
    for name, value in pairs:
        if name in fields:
            raise Refusal(422, "invalid_input", "this parameter stands there twice", pointer=f"/{escaped(name)}")
        if "\x00" in value or "\x00" in name:
            raise _nul(f"/{escaped(name)}")
        fields[name] = int(value) if name in numbers and _WHOLE.fullmatch(value) else value
    try:
        # Strict: a lax conversion would take the text `null` for nothing at all.
        return msgspec.convert({name: value for name, value in fields.items() if value != ""}, wanted)
    except msgspec.ValidationError as error:
        _refuse(error)


@cache
def _whole_numbers(wanted: type[msgspec.Struct]) -> frozenset[str]:
    """The parameters that are numbers; a query has only text."""
    return frozenset(
        field.name
        for field in msgspec.structs.fields(wanted)
        if isinstance(msgspec.inspect.type_info(field.type), msgspec.inspect.IntType)
    )


def opaque_json(raw: msgspec.Raw, pointer: str) -> bytes:
    """A payload or result as it came. Decoded once here, so that no worker ever meets one that it cannot read."""
    _decoded(raw, pointer)
    return bytes(raw)


def canonical_json(raw: msgspec.Raw, pointer: str) -> bytes:
    """The same value in one spelling: for hashes that must not depend on spaces or the order of keys."""
    return msgspec.json.encode(_decoded(raw, pointer), order="sorted")


def _decoded(raw: msgspec.Raw, pointer: str) -> object:
    if is_too_deep(bytes(raw)):
        detail = f"nested deeper than {MOST_LEVELS} levels"
        raise Refusal(422, "invalid_input", detail, pointer=pointer)
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Refusal(422, "invalid_input", str(error), pointer=pointer) from None


def _refuse(error: msgspec.ValidationError) -> NoReturn:
    message = str(error)
    path = _PATH.search(message)
    pointer = _pointer(path["place"]) if path else ""
    detail = message[: path.start()] if path else message
    if named := _NAMED_FIELD.match(message):
        pointer += f"/{escaped(named['name'])}"
    raise Refusal(422, "invalid_input", detail, pointer=pointer) from None


def _pointer(path: str) -> str:
    """`$.jobs[0].tags[...]` is /jobs/0/tags: the key of a map is not told."""
    return "".join(f"/{escaped(step['name'] or step['index'])}" for step in _STEP.finditer(path) if step[0] != "[...]")


def _nul(pointer: str) -> Refusal:
    return Refusal(422, "invalid_input", "must not contain a NUL character", pointer=pointer)


def _nul_in(value: object, pointer: str) -> str | None:
    """Where in a decoded value a text holds NUL; None when nowhere."""
    if isinstance(value, str):
        return pointer if "\x00" in value else None
    parts: list[tuple[object, object]]
    if isinstance(value, msgspec.Struct):
        parts = [(name, getattr(value, name)) for name in value.__struct_encode_fields__]
    elif isinstance(value, dict):
        parts = list(value.items())
        if any("\x00" in key for key in value):
            return pointer
    elif isinstance(value, (list, tuple)):
        parts = list(enumerate(value))
    else:
        return None
    found = (_nul_in(part, f"{pointer}/{escaped(str(name))}") for name, part in parts)
    return next((path for path in found if path is not None), None)
