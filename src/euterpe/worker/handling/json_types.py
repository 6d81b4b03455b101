"""How arguments and results travel: as JSON, in both directions, with the types that JSON has no word for.

msgspec knows dataclasses, structs, UUID, dates, Decimal, enums and the like. Paths and pydantic's models are added
here; pydantic itself is never imported: whoever has a model has imported it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final, Protocol, TypeGuard

import msgspec

from euterpe.model.submitting.references import ReferenceCollector, ResultSource

JsonDocument = dict[str, object]


class Model(Protocol):
    """A pydantic model, as far as it is used here."""

    def model_dump_json(self) -> str: ...

    @classmethod
    def model_validate_json(cls, json_data: bytes) -> Model: ...

    @classmethod
    def model_json_schema(cls) -> JsonDocument: ...


def written(value: object) -> object:
    """What stands for a value that msgspec cannot write. TypeError: nothing does."""
    if isinstance(value, PurePath):
        return str(value)
    if _is_model(value):
        return msgspec.Raw(value.model_dump_json().encode())
    if isinstance(value, ResultSource):
        raise TypeError("a job's result cannot stand here; arguments of submitted jobs can refer to it")
    raise TypeError(f"{type(value).__name__} is no type that travels as JSON")


def read(kind: type, value: object) -> object:
    """A value of a type that msgspec cannot make. Its ValueError names what is wrong with the value."""
    if isinstance(kind, type) and issubclass(kind, PurePath):
        if not isinstance(value, str):
            raise ValueError(f"Expected a path as text, got {type(value).__name__}")
        return kind(value)
    if _is_model_type(kind):
        try:
            return kind.model_validate_json(msgspec.json.encode(value))
        except ValueError as error:
            raise ValueError(_in_one_line(error)) from error
    raise TypeError(f"{kind!r} is no type that travels as JSON")


def _in_one_line(error: ValueError) -> str:
    """What pydantic says, without the values: they belong to the job and not into logs."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return str(error)
    said = errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'value'}: {one['msg']}" for one in said)


def schema_of(kind: type) -> JsonDocument:
    """TypeError for a type that cannot travel."""
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return {"type": "string"}
    if _is_model_type(kind):
        return {"type": "object"}
    raise TypeError(f"{getattr(kind, '__name__', kind)} is no type that travels as JSON")


def _is_model_type(kind: object) -> TypeGuard[type[Model]]:
    base = getattr(sys.modules.get("pydantic"), "BaseModel", None)
    return base is not None and isinstance(kind, type) and issubclass(kind, base)


def _is_model(value: object) -> TypeGuard[Model]:
    return _is_model_type(type(value))


_encode: Final = msgspec.json.Encoder(enc_hook=written).encode


def to_json(value: object) -> bytes:
    """ValueError for NaN and infinity: msgspec writes them as null, and nobody would notice what was lost."""
    encoded = _encode(value)
    if b"null" in encoded and value is not None:
        _check_finite(value)
    return encoded


def _check_finite(value: object) -> None:
    remaining = [msgspec.to_builtins(value, enc_hook=_unseen)]
    while remaining:
        item = remaining.pop()
        if isinstance(item, float):
            if not math.isfinite(item):
                raise ValueError(f"{item} is not a JSON number")
        elif isinstance(item, dict):
            remaining.extend(item.values())
        elif isinstance(item, list | tuple | set | frozenset):
            remaining.extend(item)


def _unseen(_value: object) -> None:
    """Paths hold no numbers; pydantic decides itself how a model writes them."""
    return


def to_json_with_references(value: object, book: ReferenceCollector) -> bytes:
    """The same; jobs inside the value are written as references to their results, and noted in the book."""

    def hook(inner: object) -> object:
        return book.written(inner) if isinstance(inner, ResultSource) else written(inner)

    encoded = msgspec.json.encode(value, enc_hook=hook)
    if b"null" in encoded:
        _check_finite(value)
    return encoded


def decoder_of(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=read)


def converted(value: object, kind: Any) -> Any:  # an annotation, and what it says
    """Decoded JSON as this annotation, which need not be a class."""
    return msgspec.convert(value, kind, dec_hook=read)


def builtins_of(named: Mapping[str, object]) -> dict[str, object]:
    """As plain JSON values."""
    return msgspec.json.decode(to_json(named), type=dict[str, object])
