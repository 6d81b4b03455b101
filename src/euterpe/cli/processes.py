"""`euterpe worker --processes N`: the children of one supervisor, and one page of metrics for them all."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from euterpe.cli import complain
from euterpe.cli.commands.role import run_here, set_up_logs
from euterpe.cli.session import CliSession
from euterpe.model.errors import EuterpeError
from euterpe.model.urls.hosts import AllowedHosts
from euterpe.queue.queue import Queue
from euterpe.service.components.tasks import CannotStart
from euterpe.service.health import Health
from euterpe.service.merged_metrics import MergedMetrics
from euterpe.service.roles import WORKER, Tuning
from euterpe.service.signals import Stop
from euterpe.service.supervisor import Supervisor

log = logging.getLogger("euterpe.system")


def run_several(session: CliSession, queue: Queue, tuning: Tuning, processes: int) -> int:
    """Until told to stop; the exit code."""
    if not hasattr(os, "fork"):
        raise CannotStart("--processes, --max-jobs and --max-memory need a system whose processes can fork")
    set_up_logs(session)
    with tempfile.TemporaryDirectory(prefix="euterpe-") as name:
        folder = Path(name)
        supervisor = Supervisor()
        if tuning.metrics_port:
            supervisor.add(lambda is_up: _serve_metrics(session, folder, tuning, is_up))
        for number in range(1, processes + 1):

            def run(is_up: Callable[[], None], number: int = number) -> int:
                path = folder / f"{number}-{os.getpid()}.sock"
                metrics_socket = path if tuning.metrics_port else None
                return _guarded(
                    lambda: run_here(
                        session,
                        WORKER,
                        queue,
                        replace(tuning, metrics_socket=metrics_socket, metrics_port=0),
                        is_up=is_up,
                    )
                )

            supervisor.add(run)
        return supervisor.run()


def _guarded(run: Callable[[], None]) -> int:
    try:
        run()
    except EuterpeError as error:
        return complain(error)
    return 0


def _serve_metrics(session: CliSession, folder: Path, tuning: Tuning, is_up: Callable[[], None]) -> int:
    merged = MergedMetrics(folder)

    async def check() -> None:
        if not merged.all_ready():
            raise CannotStart("a process of this worker is not ready")

    async def serve() -> None:
        stop, host = Stop(), session.config.api.host
        health = Health(merged.render, check, stop.draining, AllowedHosts(host, session.config.api.allowed_hosts))
        with stop.on_signals():
            try:
                async with health.listening(host, tuning.metrics_port):
                    is_up()
                    await stop.draining.wait()
            except OSError as error:
                if tuning.metrics_needed:
                    raise CannotStart(f"the metrics page cannot listen on {host}:{tuning.metrics_port}") from error
                log.warning("the metrics port is taken: these workers serve no metrics")
                is_up()
                await stop.draining.wait()

    return _guarded(lambda: asyncio.run(serve()))
