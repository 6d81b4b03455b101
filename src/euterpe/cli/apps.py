"""Finding the user's queue: `myapp:queue` names a module, looked for in the current folder first, and a Queue in it."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from euterpe.model.errors import EuterpeError
from euterpe.queue.queue import Queue


class AppFailed(EuterpeError):
    """The user's module was found and raised while it was imported."""


def load_queue(reference: str) -> Queue:
    """The queue that `module:name` names. Bad usage says what would have fitted."""
    module_name, colon, attribute = reference.partition(":")
    if not colon or not module_name or not attribute:
        raise click.UsageError(f"{reference!r} names no queue; write module:name, as in myapp:queue")
    module = _import(module_name)
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise click.UsageError(f"{module_name} has no {attribute!r}{_suggestion(module, module_name)}")
        found = getattr(found, part)
    if not isinstance(found, Queue):
        kind = type(found).__name__
        raise click.UsageError(f"{reference} is a {kind} and not a euterpe.Queue{_suggestion(module, module_name)}")
    return found


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise click.UsageError(
                f"there is no module {error.name!r} in this folder or in the environment; "
                "run the command in the folder that holds it"
            ) from None
        raise AppFailed(f"importing {name} failed: {error}{_place(error)}") from error
    except Exception as error:
        raise AppFailed(f"importing {name} failed: {type(error).__name__}: {error}{_place(error)}") from error


def _place(error: BaseException) -> str:
    """The user's line that raised, past the frames of the import machinery."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    ours = Path(__file__).name
    frames = [frame for frame in frames if Path(frame.filename).name != ours]
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""


def _suggestion(module: ModuleType, module_name: str) -> str:
    queues = [name for name, value in vars(module).items() if isinstance(value, Queue)]
    return f"; did you mean {module_name}:{queues[0]}?" if queues else "; no queue is in it"
