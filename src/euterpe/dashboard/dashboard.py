"""The dashboard put together: its pages, its acts, and the routes that the server serves them by."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from euterpe.dashboard.acts import CancelForm, JobActs, ReplayForm
from euterpe.dashboard.assets import assets
from euterpe.dashboard.layout import FAILURES, HOME, JOBS, OPERATIONS, SIGN_IN, SIGN_OUT, TRANSCODES
from euterpe.dashboard.page_server import Form, LivePage, NoQuery, PageServer, page_route
from euterpe.dashboard.pages.bulk import BULK, BulkForm, BulkPages, BulkQuery, OperationPageQuery
from euterpe.dashboard.pages.failures import ExportQuery, FailurePages
from euterpe.dashboard.pages.job import JobPageQuery, JobPageView
from euterpe.dashboard.pages.jobs import JobsPage, JobsQuery
from euterpe.dashboard.pages.outputs import LocalOutputs, OpenLocal
from euterpe.dashboard.pages.overview import OverviewPage
from euterpe.dashboard.pages.queues import QUEUES, Crons, PauseForm, QueuesPage, QueuesQuery
from euterpe.dashboard.pages.sign_in import Entrance, SignInForm, SignInQuery
from euterpe.dashboard.pages.transcodes import TranscodesPage, TranscodesQuery
from euterpe.dashboard.pages.webhooks import WEBHOOKS, WebhookPages, WebhooksQuery
from euterpe.dashboard.sign_in import SignIn
from euterpe.ports import DashboardReads, Sessions, Store, Wakeups
from euterpe.server.app import TakeRequest
from euterpe.server.auth import Keys
from euterpe.server.http.router import REST, AnyRoute
from euterpe.server.quotas import Quotas


class Dashboard:
    """Pages over an open store. `draining` ends the live ones."""

    def __init__(
        self,
        store: Store,
        wakeups: Wakeups,
        keys: Keys,
        sessions: Sessions,
        reads: DashboardReads,
        *,
        draining: asyncio.Event,
        crons: Crons = list,
        open_local: OpenLocal | None = None,
    ) -> None:
        self._sign_in = SignIn(keys, sessions)
        self._server = PageServer(self._sign_in, draining)
        self._store = store
        self._wakeups = wakeups
        self._reads = reads
        self._crons = crons
        self._local = LocalOutputs(self._server, store, open_local)

    def one_time_link(self, key_prefix: str) -> str:
        """The path and query that sign in once as this key."""
        return f"{SIGN_IN}?once={self._sign_in.new_link(key_prefix)}"

    def routes(self, quotas: Quotas, take_request: TakeRequest) -> Sequence[AnyRoute]:
        """Visitors have the rates and quotas of their keys."""
        self._server.take_request = take_request
        entrance = Entrance(self._server)
        acts = JobActs(self._server, self._store, self._wakeups, quotas)
        queues = QueuesPage(self._server, self._store, self._reads, self._wakeups, self._crons)
        webhooks = WebhookPages(self._server, self._store, self._reads, self._wakeups)
        failures, bulk = FailurePages(self._server, self._store), BulkPages(self._server, self._store, quotas)
        pages: list[LivePage[Any]] = [
            LivePage(self._server, HOME, NoQuery, OverviewPage(self._store, self._reads).make),
            LivePage(self._server, JOBS, JobsQuery, JobsPage(self._store).make),
            LivePage(
                self._server,
                f"{JOBS}/{{job_id}}",
                JobPageQuery,
                JobPageView(self._store, self._reads, self._local).make,
            ),
            LivePage(self._server, FAILURES, NoQuery, failures.make),
            LivePage(self._server, OPERATIONS, NoQuery, bulk.many),
            LivePage(self._server, f"{OPERATIONS}/{{operation_id}}", OperationPageQuery, bulk.one),
            LivePage(self._server, TRANSCODES, TranscodesQuery, TranscodesPage(self._store, self._local).make),
            LivePage(self._server, QUEUES, QueuesQuery, queues.make),
            LivePage(self._server, WEBHOOKS, WebhooksQuery, webhooks.many),
            LivePage(self._server, f"{WEBHOOKS}/{{event_id}}", WebhooksQuery, webhooks.one),
        ]
        return [
            *(route for page in pages for route in page.routes()),
            page_route("GET", SIGN_IN, entrance.show, SignInQuery),
            page_route("POST", SIGN_IN, entrance.enter, SignInForm),
            page_route("POST", SIGN_OUT, entrance.leave, Form),
            page_route("POST", f"{JOBS}/{{job_id}}/cancel", acts.cancel, CancelForm),
            page_route("POST", f"{JOBS}/{{job_id}}/retry", acts.retry, Form),
            page_route("POST", f"{JOBS}/{{job_id}}/replay", acts.replay, ReplayForm),
            page_route("GET", f"{FAILURES}/export", failures.export, ExportQuery),
            page_route("GET", f"{TRANSCODES}/{{job_id}}/{{output}}", self._local.serve, NoQuery),
            page_route("GET", BULK, bulk.ask, BulkQuery),
            page_route("POST", BULK, bulk.order, BulkForm),
            page_route("POST", f"{OPERATIONS}/{{operation_id}}/cancel", bulk.cancel, Form),
            page_route("POST", f"{QUEUES}/pause", queues.pause, PauseForm),
            page_route("POST", f"{WEBHOOKS}/{{event_id}}/redeliver", webhooks.redeliver, Form),
            *(page_route("GET", asset.path, asset.serve, NoQuery) for asset in assets()),
            page_route("GET", f"/dashboard/{REST}", self._server.nothing_here, NoQuery),
        ]
