"""The child process that holds one peer: `python -m bench.peers.serve MODULE URL SETTINGS_JSON`.

Commands come as JSON lines on stdin, one answer each goes to stdout: `{"ok": figures}` or `{"error": text}`.
After `work` only `{"started": ...}` lines follow. The end of stdin ends the process: no child outlives the
harness.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import threading
import time
import traceback
from typing import Any, TextIO

from bench.peers.adapter import Payload, Peer, Seen, make_payload, seen

POLL_EVERY_S = 0.002
LOCAL_TIMEOUT_S = 30.0
Figures = dict[str, Any]


class Wire:
    """The protocol's way out. Peers that print would break it, so their stdout is turned into stderr."""

    def __init__(self) -> None:
        self._out: TextIO = os.fdopen(os.dup(1), "w", buffering=1)
        self._lock = threading.Lock()
        os.dup2(2, 1)

    def send(self, message: Figures) -> None:
        with self._lock:
            self._out.write(json.dumps(message) + "\n")


async def timed_submit(peer: Peer, jobs: int, bulk: bool) -> Figures:
    payloads = [make_payload(number) for number in range(jobs)]
    start_ns = time.monotonic_ns()
    await (peer.submit_bulk(payloads) if bulk else peer.submit_one(payloads))
    return {"seconds": (time.monotonic_ns() - start_ns) / 1e9}


async def submit_paced(peer: Peer, per_second: float, jobs: int) -> Figures:
    """Submits at fixed points of time, each payload carrying the moment at which its submit began."""
    start_s = time.monotonic()
    for number in range(jobs):
        await asyncio.sleep(max(0.0, start_s + number / per_second - time.monotonic()))
        payload: Payload = make_payload(number, time.monotonic_ns())
        await peer.submit_one([payload])
    return {"seconds": time.monotonic() - start_s}


async def submit_at_once(peer: Peer, jobs: int, submitters: int) -> Figures:
    """So many tasks, each awaiting its own share one by one."""
    payloads = [make_payload(number) for number in range(jobs)]
    shares = [payloads[first::submitters] for first in range(submitters)]
    start_ns = time.monotonic_ns()
    await asyncio.gather(*(peer.submit_one(share) for share in shares))
    return {"seconds": (time.monotonic_ns() - start_ns) / 1e9}


async def latency_local(peer: Peer, warm_up: int, per_second: float, jobs: int) -> Figures:
    """Submits and works in this one process; the peer is open already."""
    working = asyncio.create_task(peer.work())
    try:
        await peer.submit_one([make_payload(number) for number in range(warm_up)])
        await until_started(working, seen, warm_up)
        await await_drained(peer, LOCAL_TIMEOUT_S)
        await submit_paced(peer, per_second, jobs)
        await until_started(working, seen, warm_up + jobs)
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    return {"latencies_us": seen.latencies_us}


async def until_started(working: asyncio.Task[None], counter: Seen, jobs: int) -> None:
    async with asyncio.timeout(LOCAL_TIMEOUT_S):
        while len(counter.starts_ns) < jobs:
            if working.done():
                raise RuntimeError("the worker ended by itself") from working.exception()
            await asyncio.sleep(POLL_EVERY_S)


async def await_drained(peer: Peer, timeout_s: float) -> Figures:
    deadline_s = time.monotonic() + timeout_s
    while left := await peer.unfinished():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{left} jobs are still unfinished after {timeout_s} s")
        await asyncio.sleep(POLL_EVERY_S)
    return {"drained_ns": time.monotonic_ns()}


async def obey(peer: Peer, command: Figures) -> Figures:
    match command["do"]:
        case "hello":
            return {}
        case "setup":
            await peer.setup()
            return {}
        case "open":
            await peer.open()
            return {}
        case "submit_one":
            return await timed_submit(peer, command["jobs"], bulk=False)
        case "submit_bulk":
            return await timed_submit(peer, command["jobs"], bulk=True)
        case "submit_paced":
            return await submit_paced(peer, command["per_second"], command["jobs"])
        case "submit_at_once":
            return await submit_at_once(peer, command["jobs"], command["submitters"])
        case "latency_local":
            return await latency_local(peer, command["warm_up"], command["per_second"], command["jobs"])
        case "await_drained":
            return await await_drained(peer, command["timeout_s"])
        case unknown:
            raise ValueError(f"unknown command {unknown!r}; see bench/README.md for the protocol")


def end_with_stdin() -> None:
    while sys.stdin.buffer.readline():
        pass
    os._exit(0)


def start_working(wire: Wire, counter: Seen) -> None:
    """`work` blocks for ever in many peers, so watching stdin and reporting need threads of their own."""
    threading.Thread(target=end_with_stdin, daemon=True).start()
    threading.Thread(target=counter.report_forever, args=(wire.send,), daemon=True).start()
    wire.send({"ok": {}})


async def converse(peer: Peer, wire: Wire) -> None:
    # Blocking reads are right here: between two commands this process has nothing else to do.
    while line := sys.stdin.readline():
        command = json.loads(line)
        if command["do"] == "work":
            start_working(wire, seen)
            await peer.work()
            raise RuntimeError("the worker ended by itself; it has to run until it is killed")
        try:
            wire.send({"ok": await obey(peer, command)})
        except Exception:  # noqa: BLE001 - any failure of a peer is an answer for the harness
            wire.send({"error": traceback.format_exc(limit=-4)})


def main() -> None:
    module_name, url, settings = sys.argv[1:4]
    wire = Wire()
    peer_class: type[Peer] = importlib.import_module(module_name).PEER
    peer_class.run(converse(peer_class(url, json.loads(settings)), wire))


if __name__ == "__main__":
    main()
