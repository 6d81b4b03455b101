"""The lease keeper: renews a worker's leases from a process of its own.

Handlers may block the event loop or hold the interpreter lock for as long as they like; the keeper does not share
either. It stops renewing when the worker is gone or stopped, so that a frozen worker does lose its jobs, and when
an attempt is past its time. When the worker died without a word, it gives back what was claimed and never begun, so
that a job that kills its worker costs no waiting job an attempt. What it learns (a lost lease, a cancel request) it
tells the worker over a pipe.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from euterpe.ports import Claims
from euterpe.runtime.shutdown import ShutdownDeadline
from euterpe.worker.execution.environment import for_a_lease_keeper
from euterpe.worker.heartbeat.keeper_config import KeeperConfig
from euterpe.worker.heartbeat.lease_table import CLEAN_EXIT, LeaseTable
from euterpe.worker.heartbeat.renew import LeaseChanges, Name, renew_forever

log = logging.getLogger("euterpe.worker")

RESTART_S: Final = 1.0
READY_PATIENCE_S: Final = 30.0
END_PATIENCE_S: Final = 5.0

Report = Callable[[Collection[Name]], None]
"""Called with all of them at once."""


class Reports(msgspec.Struct, frozen=True):
    """What the worker does with a lost lease, and with a cancel request."""

    lost: Report
    cancel: Report

    def pass_on(self, changes: LeaseChanges) -> None:
        if changes.lost:
            self.lost(set(changes.lost))
        if changes.cancelled:
            self.cancel(set(changes.cancelled))
        if changes.trouble is not None:
            log.warning("leases cannot be renewed just now", extra={"error_code": changes.trouble})


class KeeperProcess(NamedTuple):
    """How to start the process, and the store that it renews leases in. The room that knows engines says it."""

    command: tuple[str, ...]
    url: str


class LeaseKeeper:
    """The worker's side: the table, the child, and what is done with its news.

    One child at a time. While none can be started (no descriptor or memory is left, it dies as it starts), leases are
    renewed on the worker's loop, and the start is tried again."""

    def __init__(
        self, process: KeeperProcess, claims: Claims, slots: int, lease_ttl_us: int, reports: Reports, worker_id: str
    ) -> None:
        self.table = LeaseTable(slots)
        self.table.worker_id = worker_id
        self._process = process
        self._worker_id = worker_id
        self._lease_ttl_us = lease_ttl_us
        self._reports = reports
        self._on_loop = LoopHeartbeats(claims, self.table, lease_ttl_us, reports)
        self._child: asyncio.subprocess.Process | None = None
        self._starting: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._tried_at = -RESTART_S
        self._in_trouble = False
        self._closed = False

    async def ensure_running(self) -> None:
        """Start the child, or start it again if it died. Raises nothing: a worker without it still works."""
        if self._closed or (self._child is not None and self._child.returncode is None):
            return
        if self._starting is None:
            if time.monotonic() - self._tried_at < RESTART_S:
                return  # It dies as it starts; once a second is often enough.
            self._tried_at = time.monotonic()
            self._starting = asyncio.get_running_loop().create_task(self._start())
        # Whoever is cancelled while they wait must not cut off a start that others wait for too.
        await asyncio.wait({self._starting})

    async def _start(self) -> None:
        if self._child is not None:
            log.warning("the lease keeper ended with code %d and is started again", self._child.returncode)
            self._on_loop.begin()
        self._ready.clear()
        try:
            self._child = await self._spawn()
        except Exception as error:  # no descriptor, no memory, no interpreter
            self._on_loop.begin()
            if not self._in_trouble:
                self._in_trouble = True
                log.warning(
                    "the lease keeper cannot be started: leases are renewed on the event loop, which nothing may block",
                    exc_info=error,
                )
        else:
            self._in_trouble = False
            if self._closed:
                _kill(self._child)
            self._listener = asyncio.get_running_loop().create_task(self._listen(self._child))
        finally:
            self._starting = None

    async def _spawn(self) -> asyncio.subprocess.Process:
        child = await asyncio.create_subprocess_exec(
            *self._process.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=(self.table.descriptor,),
            env=for_a_lease_keeper(os.environ),
            start_new_session=True,
        )  # fmt: skip
        config = KeeperConfig(
            self._process.url,
            self.table.descriptor,
            self.table.slots,
            self._lease_ttl_us,
            os.getpid(),
            self._worker_id,
        )
        assert child.stdin is not None
        child.stdin.write(config.lines())
        return child

    async def wait_until_ready(self) -> None:
        """Until leases are renewed: one that is shorter than a process takes to start must not begin before."""
        if self._on_loop.is_running:
            return
        try:
            await asyncio.wait_for(self._ready.wait(), READY_PATIENCE_S)
        except TimeoutError:
            log.warning("the lease keeper is not ready after %d s; going on without waiting", int(READY_PATIENCE_S))

    async def _listen(self, child: asyncio.subprocess.Process) -> None:
        assert child.stdout is not None
        try:
            while line := await child.stdout.readline():
                changes = msgspec.json.decode(line, type=LeaseChanges)
                if changes.trouble is None:
                    self._ready.set()
                    self._on_loop.end()  # It renews from now on.
                self._reports.pass_on(changes)
        except Exception as error:  # a keeper that cannot be understood is of no use
            log.error("the lease keeper cannot be understood and is ended", exc_info=error)
            _kill(child)
        await child.wait()

    async def close(self, shutdown: ShutdownDeadline) -> None:
        """No child is left when this is over, also when it is cancelled."""
        self._closed = True
        child: asyncio.subprocess.Process | None = None
        try:
            if (heartbeats := self._on_loop.end()) is not None:
                await asyncio.wait({heartbeats}, timeout=shutdown.left_s(END_PATIENCE_S))
            if self._starting is not None:
                await asyncio.wait({self._starting}, timeout=shutdown.left_s(END_PATIENCE_S))
            child, self._child = self._child, None
            if child is not None:
                assert child.stdin is not None
                if not child.stdin.is_closing():  # To one that is gone uvloop lets nobody write.
                    child.stdin.write(CLEAN_EXIT)
                child.stdin.close()  # The keeper ends when its orders' pipe does.
                with suppress(TimeoutError):
                    await asyncio.wait_for(child.wait(), shutdown.left_s(END_PATIENCE_S))
        finally:
            child = child or self._child
            if child is not None and child.returncode is None:
                _kill(child)
            if self._listener is not None:
                self._listener.cancel()
            self.table.close()


def _kill(child: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        child.kill()


class LoopHeartbeats:
    """Heartbeats from the worker's own loop, begun and ended at will."""

    def __init__(self, claims: Claims, table: LeaseTable, lease_ttl_us: int, reports: Reports) -> None:
        self._claims = claims
        self._table = table
        self._lease_ttl_us = lease_ttl_us
        self._reports = reports
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def begin(self) -> None:
        if not self.is_running:
            heartbeats = renew_forever(self._claims, self._table, self._lease_ttl_us, self._on_changes)
            self._task = asyncio.get_running_loop().create_task(heartbeats)

    def end(self) -> asyncio.Task[None] | None:
        """Returns the task that is ending, if there is one."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        return task

    def _on_changes(self, changes: LeaseChanges) -> bool:
        self._reports.pass_on(changes)
        return True


class LoopKeeper:
    """Renews on the worker's own loop, where there is no second process: good for tests and for nothing that blocks."""

    def __init__(self, claims: Claims, slots: int, lease_ttl_us: int, reports: Reports, worker_id: str) -> None:
        self.table = LeaseTable(slots)
        self.table.worker_id = worker_id
        self._heartbeats = LoopHeartbeats(claims, self.table, lease_ttl_us, reports)

    async def ensure_running(self) -> None:
        self._heartbeats.begin()

    async def wait_until_ready(self) -> None:
        return None

    async def close(self, shutdown: ShutdownDeadline) -> None:
        try:
            if (task := self._heartbeats.end()) is not None:
                await asyncio.wait({task}, timeout=shutdown.left_s(END_PATIENCE_S))
        finally:
            self.table.close()
