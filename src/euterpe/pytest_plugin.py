"""Fixtures for pytest, there as soon as Euterpe is installed. Nothing of Euterpe is loaded until a test asks for one.

Name your queue in the configuration of pytest, or override the fixture `euterpe_app`:

    [tool.pytest.ini_options]
    euterpe_queue = "shop:queue"
"""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # At run time this would load Euterpe in every run of pytest, whatever it tests.
    from euterpe.queue.queue import Queue

PLACE = "euterpe_queue"


def async_fixture(function: Callable[..., object]) -> Any:  # what a plugin's decorator returns is its own
    """pytest-asyncio wants its own decorator; every other plugin for coroutines takes pytest's."""
    if importlib.util.find_spec("pytest_asyncio") is not None:
        import pytest_asyncio

        return pytest_asyncio.fixture(function)
    return pytest.fixture(function)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(PLACE, "The queue under test, as module:name. The Euterpe fixtures use it.", default="")


@pytest.fixture
def euterpe_app(request: pytest.FixtureRequest) -> Queue:
    """The application's own queue, by `euterpe_queue` of pytest's configuration. Override it to choose in code."""
    place = request.config.getini(PLACE)
    module, colon, name = place.partition(":")
    if not colon:
        raise pytest.UsageError(
            f'set {PLACE} = "module:name" in the configuration of pytest, or override the fixture euterpe_app'
        )
    queue: Queue = vars(import_module(module))[name]
    return queue


@async_fixture
async def euterpe_queue(euterpe_app: Queue) -> AsyncIterator[Queue]:
    """The queue on an empty database of its own, open, on a frozen clock: `testing.queue` for the length of a test."""
    from euterpe import testing

    async with testing.queue(euterpe_app) as queue:
        yield queue


@pytest.fixture
def euterpe_sync_queue(euterpe_app: Queue) -> Iterator[Queue]:
    """The same for tests without an event loop: `testing.sync_queue`."""
    from euterpe import testing

    with testing.sync_queue(euterpe_app) as queue:
        yield queue
