"""A control plane as a process of its own: `python -m tests.server.server URL [--lease-s S] [--sweep-s S]`.

Prints one JSON line, `{"port": ..., "pid": ...}`, once it listens; SIGTERM drains it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal

import uvloop

from euterpe.backends.engines import connect
from euterpe.server.app import create_app
from euterpe.server.http.limits import Limits
from euterpe.server.http.uvicorn_server import serve
from euterpe.stores.sql.accounts.keys import ApiKeys
from euterpe.stores.sql.store import SqlStore
from tests.sql_stores import sql


async def sweep(store: SqlStore, every_s: float) -> None:
    while True:
        await store.sweeps.urgent()
        await asyncio.sleep(every_s)


async def main(arguments: argparse.Namespace) -> None:
    backend = connect(arguments.url)
    await backend.open()
    limits = Limits(
        lease_ttl_us=int(arguments.lease_s * 1_000_000),
        rate_per_s=arguments.rate,
        rate_burst=arguments.burst,
        max_body_bytes=arguments.max_body,
        key_ttl_s=arguments.key_ttl_s,
        max_wait_ms=arguments.max_wait_ms,
        unread_answers=arguments.unread_answers,
        read_turn_wait_s=arguments.read_turn_wait_s,
    )
    app = create_app(
        backend.store,
        ApiKeys(sql(backend.store).engine),
        limits=limits,
        metrics_render=lambda: ("text/plain; version=0.0.4; charset=utf-8", b"up 1\n"),
    )
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    sweeper = asyncio.get_running_loop().create_task(sweep(sql(backend.store), arguments.sweep_s))

    def started(port: int) -> None:
        print(json.dumps({"port": port, "pid": os.getpid()}), flush=True)

    try:
        await serve(app, "127.0.0.1", arguments.port, stop=stop, started=started)
    finally:
        sweeper.cancel()
        await asyncio.gather(sweeper, return_exceptions=True)
        await backend.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--lease-s", type=float, default=60)
    parser.add_argument("--sweep-s", type=float, default=1)
    parser.add_argument("--rate", type=float, default=0)
    parser.add_argument("--burst", type=int, default=100)
    parser.add_argument("--max-body", type=int, default=4_000_000)
    parser.add_argument("--key-ttl-s", type=float, default=3)
    parser.add_argument("--max-wait-ms", type=int, default=60_000)
    parser.add_argument("--unread-answers", type=int, default=4)
    parser.add_argument("--read-turn-wait-s", type=float, default=10)
    uvloop.run(main(parser.parse_args()))
