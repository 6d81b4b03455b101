"""Serves every page: checks who is signed in, makes the page, and shows what went wrong.

A live page is the same page again: its body is made anew every moment, and sent when it has changed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Generic, TypeVar
from urllib.parse import quote

import msgspec

from euterpe.dashboard.layout import HOME, SIGN_IN, PageFrame, empty, heading, page_answer
from euterpe.dashboard.parts import html as h
from euterpe.dashboard.parts.html import Html, joined
from euterpe.dashboard.sign_in import SignIn, Visitor, is_own_form
from euterpe.model.errors import EuterpeError
from euterpe.server.app import TakeRequest
from euterpe.server.http.asgi import Answer, Header, Request, Stream
from euterpe.server.http.problems import Refusal, internal_error, refusal_of
from euterpe.server.http.router import AnyRoute, Handler, ReplySpec, Route
from euterpe.server.routes.events import EVENT_STREAM

LIVE_S: Final = 2.0
STILL_HERE_S: Final = 15.0
WATCHERS: Final = 100
WATCHERS_OF_ONE: Final = 10
TAG: Final = "Dashboard"
RETRY_LATER: Final = ((b"retry-after", b"5"),)

Input = TypeVar("Input", bound=msgspec.Struct)
MakePage = Callable[[Visitor, Input, Request], Awaitable[PageFrame]]
Act = Callable[[Visitor, Input, Request], Awaitable[str]]
"""Does something and says which page to go to."""

log: Final = logging.getLogger("euterpe.api")


class Form(msgspec.Struct, frozen=True):
    """What every form brings."""

    csrf: str | None = None


class NoQuery(msgspec.Struct, frozen=True):
    """A page that takes nothing from its address."""


class LivePage(Generic[Input]):
    """A page with an address, and the stream of its body."""

    def __init__(self, server: PageServer, path: str, takes: type[Input], make: MakePage[Input]) -> None:
        self._server = server
        self._make = make
        self.path = path
        self.takes = takes

    async def show(self, request: Request, said: Input) -> Answer:
        return await self._server.show(request, lambda visitor: self._made(visitor, said, request))

    async def stream(self, request: Request, said: Input) -> Stream:
        return await self._server.stream(request, lambda visitor: self._made(visitor, said, request))

    async def _made(self, visitor: Visitor, said: Input, request: Request) -> PageFrame:
        page = await self._make(visitor, said, request)
        query = request.query_string.decode("ascii", "replace")
        address = quote(live_path(request.path)) + (f"?{query}" if query else "")
        return page._replace(live=address)

    def routes(self) -> list[AnyRoute]:
        return [
            page_route("GET", self.path, self.show, self.takes),
            page_route("GET", live_path(self.path), self.stream, self.takes),
        ]


def live_path(path: str) -> str:
    return "/dashboard/live" + ("/overview" if path == HOME else path.removeprefix("/dashboard"))


def page_route(method: str, path: str, handler: Handler[Input], takes: type[Input]) -> AnyRoute:
    page = {200: ReplySpec("A page for people.", media_type="text/html")}
    return Route(method, path, handler, takes, "A page of the dashboard", page, None, TAG, is_page=True)


class PageServer:
    """Signs visitors in, shows pages, does what forms ask, and pours live pages."""

    def __init__(self, sign_in: SignIn, draining: asyncio.Event) -> None:
        self.sign_in = sign_in
        self._draining = draining
        self._watchers: list[str] = []
        self.take_request: TakeRequest = lambda _key, _requester: None

    async def _visitor(self, request: Request) -> Visitor | None:
        """Whoever is signed in; 429 when they come faster than their key may."""
        visitor = await self.sign_in.visitor(request)
        if visitor is not None:
            self.take_request(visitor.key_prefix, visitor.requester_id)
        return visitor

    async def show(self, request: Request, make: Callable[[Visitor], Awaitable[PageFrame]]) -> Answer:
        visitor: Visitor | None = None
        try:
            visitor = await self._visitor(request)
            if visitor is None:
                return to_sign_in(request)
            return page_answer(await make(visitor), visitor)
        except (Refusal, EuterpeError) as error:
            return trouble(error, visitor)

    async def nothing_here(self, request: Request, _: NoQuery) -> Answer:
        """For an address that no page has."""

        async def make(_: Visitor) -> PageFrame:
            raise Refusal(404, "no_such_route", "there is no page at this address")

        return await self.show(request, make)

    async def act(self, request: Request, csrf: str | None, do: Callable[[Visitor], Awaitable[str]]) -> Answer:
        """A form of an admin, that came from our own page; then the page that shows what came of it."""
        visitor: Visitor | None = None
        try:
            visitor = await self._visitor(request)
            if visitor is None:
                return see(SIGN_IN)
            if not is_own_form(request, csrf):
                raise foreign_form()
            if not visitor.is_admin:
                raise Refusal(403, "forbidden", "this key may only read; acting needs a key of scope admin")
            return see(await do(visitor))
        except (Refusal, EuterpeError) as error:
            return trouble(error, visitor)

    async def stream(self, request: Request, make: Callable[[Visitor], Awaitable[PageFrame]]) -> Stream:
        visitor = await self._visitor(request)
        if visitor is None:
            raise Refusal(401, "unauthorized", "sign in first")
        if len(self._watchers) >= WATCHERS or self._watchers.count(visitor.key_prefix) >= WATCHERS_OF_ONE:
            raise Refusal(503, "too_many_listeners", "too many live pages are open", headers=RETRY_LATER)
        self._watchers.append(visitor.key_prefix)
        left = lambda: self._watchers.remove(visitor.key_prefix)  # noqa: E731
        return Stream(self._pour(request, make), EVENT_STREAM, on_end=left)

    async def _pour(self, request: Request, make: Callable[[Visitor], Awaitable[PageFrame]]) -> AsyncIterator[bytes]:
        yield b"retry: 2000\n\n"
        last, told_at = "", time.monotonic()
        while not self._draining.is_set():
            visitor = await self.sign_in.visitor(request)
            if visitor is None:
                yield b"event: signed-out\ndata: .\n\n"
                return
            try:
                body = (await make(visitor)).body
            except (Refusal, EuterpeError) as error:
                body = what_went_wrong(error)[1]
            if body != last:
                last, told_at = body, time.monotonic()
                yield event_of(body)
            elif time.monotonic() - told_at >= STILL_HERE_S:
                told_at = time.monotonic()
                yield b": still here\n\n"
            await self._moment()

    async def _moment(self) -> None:
        try:
            async with asyncio.timeout(LIVE_S):
                await self._draining.wait()
        except TimeoutError:
            return


def event_of(body: str) -> bytes:
    lines = "\n".join(f"data: {line}" for line in body.replace("\r", "").split("\n"))
    return f"event: page\n{lines}\n\n".encode()


def see(address: str, *more: Header) -> Answer:
    """Go there: after a form, so that loading anew does not send it again."""
    location = (b"location", address.encode("ascii", "replace"))
    return Answer(303, b"", b"text/plain", (location, (b"cache-control", b"no-store"), *more))


def to_sign_in(request: Request) -> Answer:
    query = request.query_string.decode("ascii", "replace")
    wanted = quote(request.path) + (f"?{query}" if query else "")
    return see(SIGN_IN if wanted == HOME else f"{SIGN_IN}?next={quote(wanted, safe='')}")


def foreign_form() -> Refusal:
    return Refusal(403, "foreign_form", "this form did not come from a page of yours; go back, load it anew, try again")


def what_went_wrong(error: Refusal | EuterpeError) -> tuple[int, Html]:
    refusal = error if isinstance(error, Refusal) else refusal_of(error)
    if refusal.status >= 500 and refusal.code == internal_error().code:
        log.error("a page could not be made", exc_info=error)
    titles = {404: "There is no such thing", 410: "It is gone", 403: "Not with this key", 409: "Not as things are"}
    title = titles.get(refusal.status, "That did not work")
    back = h.p(h.a("To the overview", href=HOME), " · ", h.a("To the jobs", href="/dashboard/jobs"))
    return refusal.status, joined(heading(title), empty(sentence(refusal.detail)), back)


def sentence(detail: str) -> str:
    return detail[:1].upper() + detail[1:] + ("" if detail.endswith(".") else ".")


def trouble(error: Refusal | EuterpeError, visitor: Visitor | None) -> Answer:
    status, body = what_went_wrong(error)
    return page_answer(PageFrame("Trouble", body, status=status), visitor)
