"""The HTTP client as an engine under test: a control plane on the test's loop with a real port, and a client for it.

What a worker or a submitter asks goes over HTTP. What the control plane does on its own side (sweeps, webhook events,
pauses) is asked of its store, as its operator would.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import uvicorn

from euterpe.model.submitting.submission import LOCAL_REQUESTER
from euterpe.server.app import ControlPlane, create_app
from euterpe.stores.remote.store import HttpStore, with_token
from euterpe.stores.sql.accounts.keys import ApiKeys
from euterpe.stores.sql.outbox.store import Outbox
from euterpe.stores.sql.store import SqlStore


class OverHttp(HttpStore):
    """The client, with the operator's side of the control plane within reach."""

    def __init__(self, url: str, behind: SqlStore) -> None:
        super().__init__(url, payload_limit=behind.payload_limit)
        self.behind = behind
        self.engine = behind.engine
        self.sweeps = behind.sweeps  # type: ignore[assignment]
        self.now_us = behind.now_us  # type: ignore[method-assign]
        for name in ("dead_letter", "pause", "resume", "paused", "depths", "unknown_types"):
            setattr(self, name, getattr(behind, name))

    @property
    def outbox(self) -> Outbox:
        return self.behind.outbox


@asynccontextmanager
async def served(behind: SqlStore) -> AsyncIterator[SqlStore]:
    """A client of a control plane over this store; it has every method that a test asks a store for."""
    keys = ApiKeys(behind.engine)
    key = (await keys.create_key(LOCAL_REQUESTER, ("submit", "read", "worker", "admin"))).key
    app = create_app(behind, keys)
    async with listening(app) as port:
        client = OverHttp(with_token(f"http://127.0.0.1:{port}", key), behind)
        await client.open()
        try:
            yield cast(SqlStore, client)
        finally:
            await client.close()
            await app.close()


@asynccontextmanager
async def listening(app: ControlPlane) -> AsyncIterator[int]:
    """uvicorn without its main loop, which takes a tenth of a second to notice its end: too long for so many tests."""
    config = uvicorn.Config(app, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False)
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await server.startup(sockets=[listener])
        try:
            yield listener.getsockname()[1]
        finally:
            for accepting in server.servers:
                accepting.close()
