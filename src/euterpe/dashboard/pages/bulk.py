"""Acts on everything that matches: count first, confirm, then an operation with a page of its own and its progress."""

from __future__ import annotations

import secrets
from typing import Final
from urllib.parse import urlencode

import msgspec

from euterpe.dashboard.layout import JOBS, OPERATIONS, PageFrame, act, csrf, empty, grid, heading, notice, panel
from euterpe.dashboard.page_server import Form, NoQuery, PageServer
from euterpe.dashboard.parts import html as h
from euterpe.dashboard.parts.formatting import counted, duration, moment, number
from euterpe.dashboard.parts.html import Child, Html, joined
from euterpe.dashboard.sign_in import Visitor
from euterpe.model.bulk import Action, BulkOperation, BulkOrder, JobCount, OperationState
from euterpe.model.errors import InvalidInput
from euterpe.model.reading.job_query import parse_query
from euterpe.model.reading.overview import Count
from euterpe.model.reading.views import Search
from euterpe.ports import Store
from euterpe.server.http.asgi import Answer, Request
from euterpe.server.http.problems import Refusal
from euterpe.server.quotas import Quotas

BULK: Final = "/dashboard/bulk"
SAID: Final = {"cancelled": "The operation is cancelled: what was done stays done, and no further job is acted on."}
TELLS: Final = {
    Action.CANCEL: "Jobs that wait end at once; those that run are asked to stop. Ended ones are passed over.",
    Action.RETRY: "Failed jobs with attempts left go on; every other ended job runs again as a new one.",
    Action.REPLAY: "Every ended job is submitted again, as a new job.",
}
SIGNS: Final = {OperationState.RUNNING: "▶", OperationState.COMPLETED: "✓", OperationState.CANCELLED: "⊘"}


class BulkQuery(msgspec.Struct, frozen=True):
    """What shall be done, and to which jobs."""

    action: str | None = None
    q: str | None = None


class BulkForm(Form, frozen=True):
    """The same, confirmed. `key` makes it one operation, however often the form is sent."""

    action: str | None = None
    q: str | None = None
    key: str | None = None


class OperationPageQuery(msgspec.Struct, frozen=True):
    """`said` names what has just been done."""

    said: str | None = None


class BulkPages:
    """The question before, the operation, and all operations."""

    def __init__(self, server: PageServer, store: Store, quotas: Quotas) -> None:
        self._server = server
        self._quotas = quotas
        self._store = store

    async def ask(self, request: Request, said: BulkQuery) -> Answer:
        return await self._server.show(request, lambda visitor: self._question(visitor, said))

    async def _question(self, visitor: Visitor, said: BulkQuery) -> PageFrame:
        if not visitor.is_admin:
            raise Refusal(403, "forbidden", "this key may only read; acting needs a key of scope admin")
        action, query = _action(said.action), _query(said.q)
        again = action is not Action.CANCEL
        count = await self._store.operations.count(await self._search(query), dependents=again)
        return PageFrame(
            f"{_title(action)} all that match", _question(visitor, action, query, count), JOBS, query=query
        )

    async def order(self, request: Request, said: BulkForm) -> Answer:
        async def do(visitor: Visitor) -> str:
            query = _query(said.q)
            order = BulkOrder(
                action=_action(said.action),
                query=query,
                search=await self._search(query),
                ordered_by=visitor.requester_id,
                key=said.key,
            )
            await self._quotas.admit_order(self._store, order)
            operation, _ = await self._store.operations.order(order)
            return f"{OPERATIONS}/{operation.id}"

        return await self._server.act(request, said.csrf, do)

    async def cancel(self, request: Request, said: Form) -> Answer:
        async def do(visitor: Visitor) -> str:
            operation = await self._store.operations.cancel(request.parameters["operation_id"], visitor.sees)
            return f"{OPERATIONS}/{operation.id}?said=cancelled"

        return await self._server.act(request, said.csrf, do)

    async def one(self, visitor: Visitor, said: OperationPageQuery, request: Request) -> PageFrame:
        operation = await self._store.operations.get(request.parameters["operation_id"], visitor.sees)
        now = await self._store.now_us()
        return PageFrame(
            f"{_title(operation.action)} all that match", _operation(visitor, operation, said, now), OPERATIONS
        )

    async def many(self, visitor: Visitor, _: NoQuery, __: Request) -> PageFrame:
        found = await self._store.operations.list(visitor.sees)
        now = await self._store.now_us()
        return PageFrame("Operations", joined(heading("Operations"), _table(found, now)), OPERATIONS)

    async def _search(self, query: str) -> Search:
        return parse_query(query, await self._store.now_us())


def bulk_address(action: Action, query: str) -> str:
    return f"{BULK}?{urlencode({'action': str(action), 'q': query})}"


def bulk_links(query: str) -> Html:
    """Below a search: the same jobs, all of them."""
    links = [h.a(f"{_title(action)}…", href=bulk_address(action, query), class_="button") for action in Action]
    return h.div(h.span("All that match: ", class_="soft"), links, class_="acts bulk")


def _title(action: Action) -> str:
    return str(action).capitalize()


def _action(said: str | None) -> Action:
    if said not in set(Action):
        raise InvalidInput("action", f"is one of {', '.join(Action)}")
    return Action(said)


def _query(said: str | None) -> str:
    query = (said or "").strip()
    if not query:
        raise InvalidInput("q", "an empty search means every job; say which, as in state:failed type:report.*")
    return query


def _question(visitor: Visitor, action: Action, query: str, count: JobCount) -> Html:
    told = counted(Count(count.count, not count.exact))
    jobs = "job matches" if (count.count, count.exact) == (1, True) else "jobs match"
    back = h.a("See them first", href=f"{JOBS}?{urlencode({'q': query})}")
    if not count.count and count.exact:
        return joined(heading(f"{_title(action)} all that match"), empty("No job matches ", h.code(query), ". ", back))
    hidden = {"action": str(action), "q": query, "key": secrets.token_urlsafe(16)}
    return joined(
        heading(f"{_title(action)} all that match"),
        h.p(h.strong(f"{told} {jobs}"), " ", h.code(query), _dependents(count), class_="lead"),
        _cause(count.cause),
        h.p(TELLS[action], class_="soft lead"),
        h.form(
            csrf(visitor),
            [h.input_(type="hidden", name=name, value=value) for name, value in hidden.items()],
            h.button(f"{_title(action)} {told}", type="submit", class_="main"),
            back,
            method="post",
            action=BULK,
            class_="acts",
        ),
    )


def _cause(cause: str | None) -> Html | None:
    return None if cause is None else h.p("They failed with ", h.strong(cause), class_="error lead")


def _dependents(count: JobCount) -> str | None:
    """What does not match and is replayed all the same: nothing is left dead behind what runs again."""
    if not count.dependents:
        return None
    told = counted(Count(count.dependents, not count.dependents_exact))
    jobs = "job that ended because of them runs" if count.dependents == 1 else "jobs that ended because of them run"
    return f", and {told} more {jobs} again behind them."


def _state(operation: BulkOperation) -> Html:
    sign = h.span(SIGNS[operation.state], class_="sign", aria_hidden="true")
    return h.span(sign, str(operation.state), class_=f"state s-{operation.state}")


def _bar(operation: BulkOperation) -> Html:
    total = max(operation.total, operation.examined, 1)
    value = total if operation.state is OperationState.COMPLETED else operation.examined
    return h.progress(value=value, max=total, aria_label=f"Progress of {operation.action} {operation.query}")


def _operation(visitor: Visitor, operation: BulkOperation, said: OperationPageQuery, now: int) -> Html:
    total = counted(Count(operation.total, not operation.total_exact))
    skipped = [(f"Passed over: {reason.replace('_', ' ')}", number(n)) for reason, n in operation.skipped.items() if n]
    lasted = duration((operation.completed_at or now) - operation.created_at)
    facts: list[tuple[str, Child]] = [
        ("Search", h.a(h.code(operation.query), href=f"{JOBS}?{urlencode({'q': operation.query})}")),
        ("They had failed with", operation.cause),
        ("Matched when asked", total),
        ("Done", number(operation.done)),
        ("Replayed behind them", number(operation.dependents) if operation.dependents else None),
        *skipped,
        ("Failed", number(operation.failed) if operation.failed else None),
        ("Last error", operation.error),
        ("Whose jobs", operation.requester_id or "everybody's"),
        ("Ordered by", operation.ordered_by),
        ("Ordered", moment(operation.created_at, now)),
        ("Took" if operation.completed_at else "Takes so far", lasted),
    ]
    running = operation.state is OperationState.RUNNING
    stop = act(visitor, f"{OPERATIONS}/{operation.id}/cancel", "Stop it here") if running else None
    told = f"{number(operation.examined)} of {total} looked at"
    return joined(
        heading(f"{_title(operation.action)} all that match", _state(operation)),
        notice(said.said, SAID),
        h.p(_bar(operation), " ", told, class_="progress"),
        h.div(stop, class_="acts") if stop is not None else None,
        panel("Facts", h.dl([joined(h.dt(n), h.dd(v)) for n, v in facts if v is not None], class_="facts")),
        h.p(h.a("All operations", href=OPERATIONS), class_="lead"),
    )


def _table(found: list[BulkOperation], now: int) -> Html:
    if not found:
        return empty(
            "Nobody has acted on many jobs at once yet. Search on ",
            h.a("the page of jobs", href=JOBS),
            " and choose what to do with all that match.",
        )
    rows = [
        h.tr(
            h.td(_state(operation)),
            h.td(h.a(_title(operation.action), href=f"{OPERATIONS}/{operation.id}", class_="row-link")),
            h.td(operation.cause or h.code(operation.query), title=operation.query, class_="name"),
            h.td(_bar(operation), " ", number(operation.done), " done", class_="num"),
            h.td(operation.ordered_by, class_="name"),
            h.td(moment(operation.created_at, now), class_="num"),
        )
        for operation in found
    ]
    return grid(["State", "Act", "Jobs", "Progress", "Ordered by", "Ordered"], rows, "Operations, newest first")
