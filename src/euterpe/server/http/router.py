"""A route table as data, and the one way every request goes: route, key, rate, body, handler, answer.

The same table makes the OpenAPI document, so what is told is what is done: the input's type is what decodes it, the
scope is what the key is checked against.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import msgspec

from euterpe.model.accounts import Scope
from euterpe.model.errors import EuterpeError, StoreUnavailable
from euterpe.runtime.outage import Outage
from euterpe.server.auth import Authenticator
from euterpe.server.http.asgi import Answer, AsgiScope, ClientGone, Receive, Request, Send, Stream
from euterpe.server.http.decoding import decode_body, decode_query
from euterpe.server.http.limits import Limits
from euterpe.server.http.problems import PROBLEM_JSON, Refusal, internal_error, refusal_of
from euterpe.server.http.read_turns import ReadTurns

Input = TypeVar("Input", bound=msgspec.Struct)
Handler = Callable[[Request, Input], Awaitable[Answer | Stream]]

logger: Final = logging.getLogger("euterpe.api")


@dataclass(frozen=True, slots=True)
class ReplySpec:
    """One possible answer of a route, for the document: a type, a tuple of alternatives, or None for plain text."""

    description: str
    type: Any = None
    media_type: str = "application/json"
    example: Any = None
    headers: tuple[str, ...] = ()

    @property
    def types(self) -> tuple[Any, ...]:
        if self.type is None:
            return ()
        return self.type if isinstance(self.type, tuple) else (self.type,)


class JsonObject(msgspec.Struct, frozen=True):
    """A body that its handler reads itself, to find everything that is wrong with it and not the first thing only."""

    members: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Route(Generic[Input]):
    """A method and path, what they take and give. GET takes its input from the query, POST from the body. HEAD is
    answered as GET, without the body."""

    method: str
    path: str
    handler: Handler[Input]
    takes: type[Input]
    summary: str
    replies: Mapping[int, ReplySpec]
    scope: Scope | None
    """None: open to everybody."""
    tag: str
    description: str = ""
    problems: Mapping[int, str] = field(default_factory=dict)
    """Refusals of this route's own, besides those that every route of its kind may answer."""
    example: Any = None
    request_headers: tuple[str, ...] = ()
    reads_itself: bool = False
    """The handler gets a JsonObject; `takes` only describes it."""
    is_page: bool = False
    """For people and their browsers: a POST brings a form, and the API's document does not speak of it."""
    decoder: msgspec.json.Decoder[Any] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "decoder", msgspec.json.Decoder(dict[str, Any] if self.reads_itself else self.takes))

    @property
    def has_body(self) -> bool:
        return self.method != "GET" and bool(self.takes.__struct_fields__)

    @property
    def segments(self) -> tuple[str, ...]:
        return tuple(self.path.split("/"))


AnyRoute = Route[Any]
REST: Final = "{rest...}"
"""At the end of a path: whatever is below it and has no route of its own, to be looked at."""


class Router:
    """The table, ready for lookups. Paths without parameters are found by one dictionary."""

    def __init__(self, routes: Sequence[AnyRoute], authenticator: Authenticator, limits: Limits) -> None:
        self.routes = tuple(routes)
        self._authenticator = authenticator
        self._limits = limits
        self._outage = Outage(logger, "the API")
        self._read_turns = ReadTurns(limits.unread_answers, limits.read_turn_wait_s)
        self._fixed: dict[str, dict[str, AnyRoute]] = {}
        self._open: dict[tuple[str, ...], dict[str, AnyRoute]] = {}
        self._below: dict[str, AnyRoute] = {}
        for route in routes:
            if route.path.endswith(REST):
                self._below[route.path.removesuffix(REST)] = route
            elif "{" in route.path:
                self._open.setdefault(route.segments, {})[route.method] = route
            else:
                self._fixed.setdefault(route.path, {})[route.method] = route

    async def serve(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, {})
        async with AsyncExitStack() as held:
            answer = await self._answer(scope, request, held)
            if answer is None:
                return
            if not (isinstance(answer, Answer) and answer.is_large):
                await held.aclose()
            if scope["method"] == "HEAD":
                await answer.send_head(send)
            elif isinstance(answer, Stream):
                await answer.send_to(request, send)
            else:
                await answer.send(send)

    async def _answer(self, scope: AsgiScope, request: Request, held: AsyncExitStack) -> Answer | Stream | None:
        """None: the client has gone. `held` keeps the requester's turn while the answer is read."""
        route: AnyRoute | None = None
        try:
            route = self._find(scope["method"], scope["path"], request)
            answer = await self._handle(route, request, held)
            if route.scope is not None:
                self._outage.over()
        except ClientGone:
            return None
        except Refusal as refusal:
            return problem_answer(refusal)
        except EuterpeError as error:
            return problem_answer(self._refuse(error, route))
        except Exception:  # noqa: BLE001  # a bug of ours must still be answered, and logged
            _log_failure(route)
            return problem_answer(internal_error())
        return answer

    def _find(self, method: str, path: str, request: Request) -> AnyRoute:
        methods = self._fixed.get(path)
        if methods is None:
            methods = self._match(path, request)
        if methods is None and method in ("GET", "HEAD"):
            for folder, page in self._below.items():
                if path.startswith(folder):
                    return page
        if methods is None:
            raise Refusal(404, "no_such_route", "nothing is here; /docs shows what there is")
        route = methods.get("GET" if method == "HEAD" else method)
        if route is None:
            allowed = ", ".join(sorted([*methods, "HEAD"] if "GET" in methods else methods))
            headers = ((b"allow", allowed.encode()),)
            raise Refusal(405, "method_not_allowed", f"this takes {allowed}", headers=headers)
        return route

    def _match(self, path: str, request: Request) -> dict[str, AnyRoute] | None:
        parts = path.split("/")
        for segments, methods in self._open.items():
            if len(segments) != len(parts):
                continue
            differing = [(s, part) for s, part in zip(segments, parts, strict=True) if s != part]
            if all(s.startswith("{") and part for s, part in differing):
                request.parameters = {s[1:-1]: part for s, part in differing}
                return methods
        return None

    async def _handle(self, route: AnyRoute, request: Request, held: AsyncExitStack) -> Answer | Stream:
        if route.scope is not None:
            request.identity = await self._authenticator.admit(request, route.scope)
        if route.method != "GET":
            body = await request.body(self._limits.max_body_bytes, self._limits.body_timeout_s)
            decoded = decode_query(body, route.takes) if route.is_page else decode_body(body, route.decoder)
            if route.reads_itself:
                decoded = JsonObject(decoded)
        else:
            decoded = decode_query(request.query_string, route.takes)
            if route.scope is not None:
                await held.enter_async_context(self._read_turns.of(request.identity.requester_id))
        return await route.handler(request, decoded)

    def _refuse(self, error: EuterpeError, route: AnyRoute | None) -> Refusal:
        refusal = refusal_of(error)
        if isinstance(error, StoreUnavailable):
            self._outage.pause_after(error)
        elif refusal.status >= 500:
            _log_failure(route)
        return refusal


def problem_answer(refusal: Refusal) -> Answer:
    return Answer(refusal.status, refusal.body, PROBLEM_JSON, refusal.headers)


def _log_failure(route: AnyRoute | None) -> None:
    where = {"path": route.path, "method": route.method} if route is not None else {}
    logger.exception("a request failed", extra=where)
