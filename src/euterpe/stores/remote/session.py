"""The connection to a control plane: one HTTP session that keeps its connections, and answers or typed errors.

What a problem document says comes back as the error that a database on this side would have raised.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import aiohttp
import msgspec

from euterpe.model.errors import (
    CommitUnknown,
    DependencyCycle,
    DependencyLimit,
    EuterpeError,
    IdempotencyConflict,
    IllegalTransition,
    InvalidInput,
    JobNotFound,
    JobPruned,
    PayloadTooLarge,
    StaleLease,
    StoreUnavailable,
    UnknownDependency,
    Unsupported,
)
from euterpe.model.job import parse_attempt_id

CONNECTIONS: Final = 32
KEEP_ALIVE_S: Final = 60.0
"""Shorter than the server's, so that it is we who close: what is sent on a connection that closes may be lost."""
CONNECT_S: Final = 5.0
ANSWER_S: Final = 30.0

_INVALID: Final[dict[str, type[InvalidInput]]] = {
    "invalid_input": InvalidInput,
    "payload_too_large": PayloadTooLarge,
    "unknown_dependency": UnknownDependency,
    "dependency_cycle": DependencyCycle,
    "dependency_limit": DependencyLimit,
}
_IN_BATCH: Final = re.compile(r"^/jobs/[0-9]+(?=/)")
_JOB_ID: Final = re.compile(r"\b(job|operation) ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b")
_MOVE: Final = re.compile(r"^an? (\S+) (job|operation) cannot become ([^\s:]+)(?:: (.*))?$", re.DOTALL)


class AccessRefused(StoreUnavailable):
    """The control plane does not take this key, or not for this. Nothing was written; a good key will do."""


class ProblemReply(msgspec.Struct, frozen=True):
    """What matters of a problem document (RFC 9457)."""

    code: str = ""
    detail: str = ""
    pointer: str | None = None


class HttpReply(msgspec.Struct, frozen=True):
    """An answer that says yes."""

    body: bytes
    headers: Mapping[str, str]


class Subject(msgspec.Struct, frozen=True):
    """What a request was about: an error names it."""

    job_id: str = ""
    attempt_id: str = ""
    key: str = ""


NOBODY: Final = Subject()


def with_token(url: str, token: str | None) -> str:
    """The URL with the key as its password: the form in which it reaches a lease keeper, over a pipe."""
    parts = urlsplit(url)
    if not parts.hostname:
        raise InvalidInput("url", "names no host; write http://127.0.0.1:8080")
    if parts.query or parts.fragment:
        raise InvalidInput("url", "of a control plane has no query; write http://127.0.0.1:8080")
    if token is None:
        return url
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInput("token", "is not an API key; `euterpe keys create` makes one")
    if parts.password is not None:
        raise InvalidInput("token", "is in the URL already; give it once")
    netloc = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f":{quote(token, safe='')}@{netloc}"))


class ControlPlaneSession:
    """Requests with this key to this control plane."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2])
        self._base = urlunsplit(bare).rstrip("/")
        self._token = unquote(parts.password or "")
        self._http: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        headers = {"content-type": "application/json"}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        self._http = aiohttp.ClientSession(
            headers=headers,
            connector=aiohttp.TCPConnector(limit=CONNECTIONS, keepalive_timeout=KEEP_ALIVE_S),
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    def say_always(self, header: str, value: str) -> None:
        """With every request from now on, while this session is open."""
        if self._http is not None:
            self._http.headers[header] = value

    async def close(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            await http.close()

    async def post(
        self,
        path: str,
        body: object,
        about: Subject = NOBODY,
        headers: Mapping[str, str] | None = None,
        answer_s: float = ANSWER_S,
    ) -> HttpReply:
        return await self._ask("POST", path, about, answer_s, data=msgspec.json.encode(body), headers=headers)

    async def patch(self, path: str, body: object, about: Subject = NOBODY) -> HttpReply:
        return await self._ask("PATCH", path, about, ANSWER_S, data=msgspec.json.encode(body))

    async def get(self, path: str, params: Mapping[str, str], about: Subject = NOBODY) -> HttpReply:
        return await self._ask("GET", path, about, ANSWER_S, params=params)

    async def _ask(self, method: str, path: str, about: Subject, answer_s: float, **what: Any) -> HttpReply:
        if self._http is None:
            raise EuterpeError("this queue is not open; use it inside `async with queue:`")
        timeout = aiohttp.ClientTimeout(total=answer_s, connect=CONNECT_S)
        try:
            async with self._http.request(
                method, self._base + path, timeout=timeout, allow_redirects=False, **what
            ) as response:
                body = await response.read()
                status, headers = response.status, response.headers
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise StoreUnavailable(f"the control plane at {self._base} cannot be reached") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise CommitUnknown("the control plane's answer was lost; what was asked may have been done") from error
        if status < HTTPStatus.MULTIPLE_CHOICES:
            return HttpReply(body, headers)
        raise error_of(status, body, about)


def requester_params(requester_id: str | None) -> dict[str, str]:
    """Whose jobs a request is about, where that is not the key's own requester."""
    return {} if requester_id is None else {"requester": requester_id}


def error_of(status: int, body: bytes, about: Subject) -> EuterpeError:
    """The error that a problem document stands for."""
    try:
        problem = msgspec.json.decode(body, type=ProblemReply)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        problem = ProblemReply()
    detail = problem.detail or f"the control plane answered {status}"
    if (invalid := _INVALID.get(problem.code)) is not None:
        return invalid(_field_of(problem.pointer), detail)
    match problem.code:
        case "idempotency_conflict":
            found = _JOB_ID.search(detail)
            return IdempotencyConflict(about.key, found.group(2) if found else "", found.group(1) if found else "job")
        case "illegal_transition":
            return illegal_move(detail)
        case "job_pruned":
            return JobPruned(about.job_id)
        case "no_such_route":
            return EuterpeError("the control plane has no such route: it is older than this client; upgrade it first")
        case "not_found" if about.job_id:
            return JobNotFound(about.job_id, problem.detail)
        case "stale_lease":
            job_id, version = parse_attempt_id(about.attempt_id) or (about.job_id, 0)
            return StaleLease(job_id, version)
        case "unsupported":
            return Unsupported(detail)
    return _refused(status, detail)


def illegal_move(detail: str) -> IllegalTransition:
    move = _MOVE.match(detail)
    if move is None:
        return IllegalTransition("", detail)
    source, what, target, why = move.groups(default="")
    return IllegalTransition(source, target, why, what)


def _refused(status: int, detail: str) -> EuterpeError:
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return AccessRefused(f"the control plane refuses this key: {detail}")
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return PayloadTooLarge("body", detail)
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return StoreUnavailable(detail)
    if status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY):
        return InvalidInput("body", detail)
    return EuterpeError(f"the control plane answered {status}: {detail}; does the URL name one?")


def _field_of(pointer: str | None) -> str:
    """/tags/colour is `tags.colour`; inside a batch the place of the job is left out."""
    parts = _IN_BATCH.sub("", pointer or "/body").split("/")[1:]
    return ".".join(part.replace("~1", "/").replace("~0", "~") for part in parts)
