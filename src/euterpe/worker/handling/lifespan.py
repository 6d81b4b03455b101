"""The lifespan of a worker: what its handlers share is opened before the first job and closed after the last."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from euterpe.model.errors import EuterpeError, InvalidInput
from euterpe.runtime.shutdown import ShutdownDeadline
from euterpe.worker.context import NO_STATE
from euterpe.worker.failures import text_of
from euterpe.worker.handling.handlers import Handlers
from euterpe.worker.handling.hooks import AttemptHooks, Hooks, Lifespan, name_of

log = logging.getLogger("euterpe.worker")

CLOSE_S: Final = 10.0
"""How long a lifespan may take to end; less where the process has less time left."""


def lifespan_of(function: Any) -> Lifespan:
    """InvalidInput for anything but an async generator function, or a callable that makes an async context manager."""
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function) or not callable(function):
        raise InvalidInput("lifespan", f"{name_of(function)} must be an `async def` that yields once")
    if inspect.isasyncgenfunction(function):
        return asynccontextmanager(function)
    made: Lifespan = function
    return made


@asynccontextmanager
async def opened(hooks: Hooks, handlers: Handlers, shutdown: ShutdownDeadline) -> AsyncIterator[AttemptHooks]:
    """The hooks with an open state. EuterpeError when the lifespan fails, at its start or at its end; an end that
    fails hides no error of the worker."""
    if hooks.lifespan is None:
        yield AttemptHooks(hooks, handlers, NO_STATE)
        return
    name = name_of(hooks.lifespan)
    manager, state = await _enter(hooks.lifespan, name)
    try:
        yield AttemptHooks(hooks, handlers, state)
    except BaseException:
        try:
            await _leave(manager, name, shutdown)
        except EuterpeError as error:
            log.error("the lifespan failed at its end", exc_info=error)
        raise
    await _leave(manager, name, shutdown)


async def _enter(lifespan: Lifespan, name: str) -> tuple[AbstractAsyncContextManager[Any], Any]:
    try:
        manager = lifespan()
        if not isinstance(manager, AbstractAsyncContextManager):
            raise InvalidInput("lifespan", f"{name} returned {type(manager).__name__} and no async context manager")
        return manager, await manager.__aenter__()
    except Exception as error:
        log.error("the lifespan failed; the worker does not start", exc_info=error)
        raise EuterpeError(_error_message(name, "start", error)) from error


async def _leave(manager: AbstractAsyncContextManager[Any], name: str, shutdown: ShutdownDeadline) -> None:
    """What stands behind its `yield` runs however the worker ended."""
    patience_s = shutdown.left_s(CLOSE_S)
    try:
        async with asyncio.timeout(patience_s):
            await manager.__aexit__(None, None, None)
    except TimeoutError as error:
        raise EuterpeError(f"the lifespan {name} did not end within {patience_s:.1f} s") from error
    except Exception as error:
        raise EuterpeError(_error_message(name, "end", error)) from error


def _error_message(name: str, when: str, error: Exception) -> str:
    return f"the lifespan {name} failed at its {when}: {type(error).__name__}: {text_of(error)}"
