"""The public names: all exported, all explained, and none that shows what a queue is made of."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import subprocess
import sys
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

import euterpe
from euterpe import testing, webhooks
from euterpe.queue.queue import Queue

NAMES = sorted(euterpe.__all__)
CLASSES = [name for name in NAMES if inspect.isclass(getattr(euterpe, name))]
EXPORTED = {getattr(euterpe, name) for name in NAMES if name in CLASSES}
A_USERS_QUEUE = {
    *("submit", "submit_many", "chain", "fan_out", "workflow", "job", "cron"),
    *("get", "attempts", "search", "cancel", "retry", "dead_letter", "update", "pause", "resume", "stats"),
    *("worker", "work", "open", "close", "sync", "url", "rates", "crons"),
    *("lifespan", "middleware", "submit_middleware", "on_error"),
}
STEERING = {"result", "wait", "refresh", "progress", "cancel", "retry"}


def public_members(cls: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties that this library wrote, not those of Exception or an enumeration."""
    for name, member in inspect.getmembers_static(cls):
        home = next((base for base in cls.__mro__ if name in vars(base)), object)
        if not name.startswith("_") and home.__module__.startswith("euterpe") and not isinstance(member, enum.Enum):
            yield name, member


def function_of(member: Any) -> Callable[..., Any] | None:
    if isinstance(member, property):
        return member.fget
    if isinstance(member, (staticmethod, classmethod)):
        return member.__func__
    if hasattr(member, "func"):  # a cached property
        return typing.cast("Callable[..., Any]", member.func)
    return member if inspect.isfunction(member) else None


FUNCTIONS = [
    pytest.param(function, id=f"{name}.{member_name}")
    for name in CLASSES
    for member_name, member in public_members(getattr(euterpe, name))
    if (function := function_of(member)) is not None
]
METHODS_WITH_EXAMPLES = [
    pytest.param(function, id=f"{cls.__name__}.{name}")
    for cls in (euterpe.Queue, euterpe.JobHandle, euterpe.JobType, euterpe.Worker, euterpe.Workflow, euterpe.SyncQueue)
    for name, member in public_members(cls)
    if inspect.isfunction(function := member)
]
FOR_HANDLERS = ("progress", "checkpoint", "stage", "spawn")
METHODS_WITH_EXAMPLES += [pytest.param(getattr(euterpe.Context, name), id=f"Context.{name}") for name in FOR_HANDLERS]


@pytest.mark.parametrize("name", NAMES)
def test_every_exported_name_is_there_and_explained(name: str) -> None:
    value = getattr(euterpe, name)
    if inspect.isclass(value):
        written = vars(value).get("__doc__")
        assert written, f"euterpe.{name} has no docstring of its own"
        assert not written.startswith(f"{name}("), f"euterpe.{name} has only the signature that Python makes up"


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_public_method_and_property_is_explained(function: Callable[..., Any]) -> None:
    assert function.__doc__, f"{function.__qualname__} has no docstring"


@pytest.mark.parametrize("function", METHODS_WITH_EXAMPLES)
def test_what_a_user_calls_shows_an_example(function: Callable[..., Any]) -> None:
    assert "Example:\n    " in (inspect.getdoc(function) or ""), f"{function.__qualname__} shows no example"


def types_in(annotation: Any) -> Iterator[type]:
    """Every class that an annotation is made of."""
    if inspect.isclass(annotation) and not typing.get_args(annotation):
        yield annotation
    for part in (typing.get_origin(annotation), *typing.get_args(annotation)):
        if isinstance(part, list):
            for inner in part:
                yield from types_in(inner)
        elif part is not None:
            yield from types_in(part)


def is_known_to_users(kind: type) -> bool:
    return kind in EXPORTED or kind.__module__.split(".")[0] in sys.stdlib_module_names or kind is types.NoneType


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_annotation_is_of_exported_or_standard_types(function: Callable[..., Any]) -> None:
    hints = typing.get_type_hints(function)
    strangers = {kind for hint in hints.values() for kind in types_in(hint) if not is_known_to_users(kind)}
    assert strangers == set(), f"{function.__qualname__} names what users cannot import"


@pytest.mark.parametrize("name", CLASSES)
def test_every_field_is_of_exported_or_standard_types(name: str) -> None:
    cls = getattr(euterpe, name)
    if not (dataclasses.is_dataclass(cls) or typing.is_typeddict(cls) or issubclass(cls, msgspec.Struct)):
        return
    hints = typing.get_type_hints(cls)
    strangers = {kind for hint in hints.values() for kind in types_in(hint) if not is_known_to_users(kind)}
    assert strangers == set(), f"euterpe.{name} has fields that users cannot import the types of"


def test_a_queue_shows_what_a_user_needs_and_nothing_of_its_engine_room(sqlite_url: str) -> None:
    queue = Queue(sqlite_url)
    assert {name for name in dir(queue) if not name.startswith("_")} == A_USERS_QUEUE
    assert {name for name in vars(queue) if not name.startswith("_")} == set()


def test_what_a_user_holds_shows_nothing_of_the_engine_room_either(sqlite_url: str) -> None:
    queue = Queue(sqlite_url)

    @queue.job("render")
    async def render(report_id: int) -> None: ...

    def shown(value: object) -> set[str]:
        return {name for name in dir(value) if not name.startswith("_")}

    assert shown(render) == {"type", "function", "with_args", "options", "submit"}
    assert shown(render.with_args(7)) == {"type", "with_options"}
    assert shown(render.options(delay="5m")) == {"with_args", "submit"}
    assert shown(queue.workflow()) == {"add", "include", "nodes", "store"}
    assert shown(queue.worker()) == {"id", "is_running", "running", "run", "start", "stop"}
    assert shown(euterpe.JobHandle) == {"id", "type", "state", "created_at", "replayed", *STEERING}


def test_the_list_of_exported_names_is_the_one_that_is_loaded_lazily() -> None:
    assert set(euterpe.__all__) <= set(dir(euterpe))
    assert len(set(euterpe.__all__)) == len(euterpe.__all__)
    with pytest.raises(AttributeError):
        _ = euterpe.NoSuchName


def test_importing_the_package_loads_none_of_its_rooms() -> None:
    look = "import sys, euterpe; print([name for name in sys.modules if name.startswith('euterpe.')])"
    answer = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_the_other_public_modules_are_explained_too() -> None:
    for module in (testing, webhooks):
        for name in module.__all__:
            assert inspect.getdoc(getattr(module, name)), f"{module.__name__}.{name} has no docstring"


def test_the_sync_face_takes_the_same_arguments_as_the_queue() -> None:
    for name in A_USERS_QUEUE & {name for name, _ in public_members(euterpe.SyncQueue)} - {"close"}:
        parameters = [
            [(p.name, p.kind, p.default) for p in inspect.signature(getattr(cls, name)).parameters.values()]
            for cls in (euterpe.Queue, euterpe.SyncQueue)
        ]
        assert parameters[0] == parameters[1], name
