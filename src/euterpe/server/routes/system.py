"""For those who run the process: is it alive, is it ready, its metrics, and the description of the API itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Final, NamedTuple

import msgspec

from euterpe.model.errors import DatabaseLocked
from euterpe.server.http.asgi import Answer, Header, Request
from euterpe.wire.jobs import NoInput, Readiness

Check = Callable[[], Awaitable[object]]
"""Raises when its part cannot work."""
MetricsRender = Callable[[], tuple[str, bytes]]
"""(content type, body), as `observe.metrics.Metrics.render` gives."""

NO_STORE: Final[tuple[Header, ...]] = ((b"cache-control", b"no-store"),)
# Nothing on the page runs, loads or is framed; its one style sheet is inside it.
DOCS_HEADERS: Final[tuple[Header, ...]] = (
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
)

log: Final = logging.getLogger("euterpe.api")


class Description(NamedTuple):
    """What the routes are, for programs and for people."""

    openapi: bytes
    docs: bytes


class SystemRoutes:
    """Open to everybody, so nothing here tells more than it must."""

    def __init__(self, checks: Mapping[str, Check], timeout_s: float, metrics_render: MetricsRender | None) -> None:
        self._checks = dict(checks)
        self._timeout_s = timeout_s
        self._metrics_render = metrics_render
        self.draining = False
        self.describe: Callable[[], Description] = lambda: Description(b"{}", b"")

    @cached_property
    def _description(self) -> Description:
        # At the first request: it takes longer than all the rest of a start.
        return self.describe()

    async def alive(self, _: Request, __: NoInput) -> Answer:
        return Answer(200, b'{"status":"ok"}', headers=NO_STORE)

    async def ready(self, _: Request, __: NoInput) -> Answer:
        names = list(self._checks)
        outcomes = await asyncio.gather(*(self._run(name) for name in names))
        checks = dict(zip(names, outcomes, strict=True))
        if self.draining:
            checks["api"] = "draining"
        failing = [name for name, outcome in checks.items() if outcome != "ok"]
        readiness = Readiness("unavailable" if failing else "ready", checks, failing)
        return Answer(503 if failing else 200, msgspec.json.encode(readiness), headers=NO_STORE)

    async def _run(self, name: str) -> str:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._checks[name]()
        except TimeoutError:
            return f"no answer in {self._timeout_s:g} s"
        except DatabaseLocked as error:
            log.warning("the database is locked", extra={"error_code": error.code, "blocked_by": error.holder})
            return error.holder
        except Exception as error:  # a check may fail in any way; the name is what counts
            # The message may hold addresses and file names; it goes to the log, not to whoever asks.
            log.warning("a readiness check failed", extra={"error_code": type(error).__name__})
            log.debug("a readiness check failed", exc_info=error)
            return type(error).__name__
        return "ok"

    async def metrics(self, _: Request, __: NoInput) -> Answer:
        assert self._metrics_render is not None  # without it the route is not there
        media_type, body = self._metrics_render()
        return Answer(200, body, media_type.encode(), NO_STORE)

    async def openapi_document(self, _: Request, __: NoInput) -> Answer:
        return Answer(200, self._description.openapi)

    async def docs_page(self, _: Request, __: NoInput) -> Answer:
        return Answer(200, self._description.docs, b"text/html; charset=utf-8", DOCS_HEADERS)
