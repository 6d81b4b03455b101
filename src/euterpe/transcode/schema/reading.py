"""Reading JSON into structs with every problem found, each with a pointer; msgspec alone stops at the first."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class FieldProblem:
    pointer: str
    """RFC 6901; empty for the document itself."""
    code: str
    message: str

    def under(self, prefix: str) -> FieldProblem:
        return FieldProblem(prefix + self.pointer, self.code, self.message)


def read(
    raw: object, into: type[T], problems: list[FieldProblem], pointer: str = "", ignore: Collection[str] = ()
) -> T | None:
    """The struct, good for use where no problem was added, else good for finding more of them.

    What cannot be read is left at its default; a name that is required keeps its text. `ignore` names fields that
    somebody else reads.
    """
    if not isinstance(raw, dict):
        problems.append(FieldProblem(pointer, "invalid", "an object is expected"))
        return None
    fields = {field.encode_name: field for field in msgspec.structs.fields(into)}
    unknown = [key for key in raw if key not in fields and key not in ignore and not _is_tag(into, key)]
    problems.extend(
        FieldProblem(f"{pointer}/{escaped(key)}", "unknown_field", "there is no such option") for key in unknown
    )
    values: dict[str, object] = {}
    for name, field in fields.items():
        place = f"{pointer}/{escaped(name)}"
        before = len(problems)
        if name in raw:
            value = _value(raw[name], field.type, problems, place)
            if len(problems) == before or value is not None:
                values[field.name] = value
        elif field.required:
            problems.append(FieldProblem(place, "missing", "this option is required"))
        if field.required and field.name not in values:
            if not _is_text(field.type):
                return None
            values[field.name] = raw.get(name) if isinstance(raw.get(name), str) else ""
    return into(**values)


def _is_text(kind: typing.Any) -> bool:
    return kind is str or (typing.get_origin(kind) is typing.Annotated and typing.get_args(kind)[0] is str)


def escaped(key: object) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")


def _is_tag(into: type[msgspec.Struct], key: object) -> bool:
    return key == into.__struct_config__.tag_field


def _value(raw: object, kind: typing.Any, problems: list[FieldProblem], pointer: str) -> object:  # types are not typed
    struct, optional = _struct_in(kind)
    if struct is not None:
        return None if optional and raw is None else read(raw, struct, problems, pointer)
    item = _struct_item(kind)
    if item is not None and isinstance(raw, list):
        return _items(raw, kind, item, problems, pointer)
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        problems.append(_problem(error, pointer))
        return None


def _items(
    raw: list[object], kind: typing.Any, item: type[msgspec.Struct], problems: list[FieldProblem], pointer: str
) -> tuple[msgspec.Struct, ...]:
    read_ones = [read(each, item, problems, f"{pointer}/{index}") for index, each in enumerate(raw)]
    try:  # the length alone: what is in the items was just looked at
        msgspec.convert([None] * len(raw), _of_anything(kind))
    except msgspec.ValidationError as error:
        problems.append(_problem(error, pointer))
    return tuple(each for each in read_ones if each is not None)


def _of_anything(kind: typing.Any) -> typing.Any:
    if typing.get_origin(kind) is typing.Annotated:
        return typing.Annotated[(tuple[typing.Any, ...], *typing.get_args(kind)[1:])]
    return tuple[typing.Any, ...]


def _problem(error: msgspec.ValidationError, pointer: str) -> FieldProblem:
    """msgspec ends its message with "- at `$[0]`" where the fault lies deeper; that becomes part of the pointer."""
    message, _, path = str(error).partition(" - at `")
    indexes = re.findall(r"\[(\d+)\]", path)
    return FieldProblem(pointer + "".join(f"/{index}" for index in indexes), "invalid", message)


def _struct_in(kind: typing.Any) -> tuple[type[msgspec.Struct] | None, bool]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind, False
    if isinstance(kind, types.UnionType):
        structs = [
            each for each in typing.get_args(kind) if isinstance(each, type) and issubclass(each, msgspec.Struct)
        ]
        if len(structs) == 1:
            return structs[0], True
    return None, False


def _struct_item(kind: typing.Any) -> type[msgspec.Struct] | None:
    if typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) is tuple:
        return _struct_in(typing.get_args(kind)[0])[0]
    return None
