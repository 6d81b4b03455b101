"""How arguments and results travel: as JSON, in both directions, with the types that JSON has no word for.

msgspec knows dataclasses, structs, UUID, dates, Decimal, enums and the like. Paths and pydantic's models are added
here; pydantic itself is never imported: whoever has a model has imported it.
"""

from __future__ import annotations

import sys
from pathlib import PurePath
from typing import Any, Final, Protocol

import msgspec

from euterpe.model.submitting.references import ReferenceBook, ResultSource


class Model(Protocol):
    """A pydantic model, as far as it is used here."""

    def model_dump_json(self) -> str: ...

    @classmethod
    def model_validate_json(cls, json_data: bytes) -> Model: ...

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]: ...


def written(value: Any) -> Any:
    """What stands for a value that msgspec cannot write. TypeError: nothing does."""
    if isinstance(value, PurePath):
        return str(value)
    if (model := _as_model(type(value))) is not None:
        return msgspec.Raw(model.model_dump_json(value).encode())
    if isinstance(value, ResultSource):
        raise TypeError("a job's result cannot stand here; arguments of submitted jobs can refer to it")
    raise TypeError(f"{type(value).__name__} is no type that travels as JSON")


def read(kind: type, value: Any) -> Any:
    """A value of a type that msgspec cannot make. Its ValueError names what is wrong with the value."""
    if isinstance(kind, type) and issubclass(kind, PurePath):
        if not isinstance(value, str):
            raise ValueError(f"Expected a path as text, got {type(value).__name__}")
        return kind(value)
    if (model := _as_model(kind)) is not None:
        try:
            return model.model_validate_json(msgspec.json.encode(value))
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


def schema_of(kind: type) -> dict[str, Any]:
    """TypeError for a type that cannot travel."""
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return {"type": "string"}
    if _as_model(kind) is not None:
        return {"type": "object"}
    raise TypeError(f"{getattr(kind, '__name__', kind)} is no type that travels as JSON")


def _as_model(kind: Any) -> type[Model] | None:
    pydantic = sys.modules.get("pydantic")
    base = getattr(pydantic, "BaseModel", None)
    return kind if base is not None and isinstance(kind, type) and issubclass(kind, base) else None


to_json: Final = msgspec.json.Encoder(enc_hook=written).encode


def to_json_with_references(value: Any, book: ReferenceBook) -> bytes:
    """Likewise; jobs inside the value are written as references to their results, and noted in the book."""

    def hook(inner: Any) -> Any:
        return book.written(inner) if isinstance(inner, ResultSource) else written(inner)

    return msgspec.json.encode(value, enc_hook=hook)


def decoder_of(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=read)


def converted(value: Any, kind: Any) -> Any:
    """Decoded JSON as this type."""
    return msgspec.convert(value, kind, dec_hook=read)


def builtins_of(value: Any) -> Any:
    """As plain JSON values."""
    return msgspec.json.decode(to_json(value))
