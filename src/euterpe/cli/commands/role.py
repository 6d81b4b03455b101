"""`euterpe --role=...`: one process of the system, from its configuration to its exit code."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from typing import Any

import click

from euterpe.backends.engines import make_room, with_list_settings
from euterpe.cli.apps import load_queue
from euterpe.cli.banner import print_banner
from euterpe.cli.session import CliSession
from euterpe.config import EngineConfig
from euterpe.observe.logs import configure_logging
from euterpe.queue.queue import Queue
from euterpe.runtime.collector import relax_collector
from euterpe.service.builtin_jobs import builtin_queue
from euterpe.service.components.producing import files_are_produced
from euterpe.service.components.transcoding import is_wanted
from euterpe.service.roles import PRODUCER, ROLES, Role, Started, Tuning, run_role, tuning_of

log = logging.getLogger("euterpe.system")


def start(session: CliSession, name: str, app: str | None) -> None:
    """Run a role until it is told to stop."""
    role = ROLES[name]
    session.needed = role.needs
    config = session.config
    if role is PRODUCER and not files_are_produced(config):
        raise click.UsageError("--role=producer needs a folder: set producer.scan_dir, or PRODUCER_SCAN_DIR")
    transcodes = is_wanted(config, config.engine.url)
    if app is not None:
        queue = load_queue(app)
        transcodes = is_wanted(config, queue.url)
    elif role.works and not role.serves and not transcodes:
        raise click.UsageError("--role=worker runs your jobs: name your queue with --app myapp:queue")
    else:
        make_room(config.engine.url)
        queue = builtin_queue(session.url, payload_limit=config.engine.max_payload_bytes)
    run_here(session, role, queue, tuning_of(config), transcodes=transcodes)


def run_here(
    session: CliSession,
    role: Role,
    queue: Queue,
    tuning: Tuning,
    *,
    transcodes: bool = False,
    is_up: Callable[[], None] = lambda: None,
) -> None:
    """Logs, the fastest loop there is, and the role on it."""
    set_up_logs(session)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # what it tells of its start, we tell in our own words
    warn_of_two_databases(session, queue)
    if session.loaded.file_missing:
        log.warning("there is no file where --config points: the environment and the defaults are used")
    if session.loaded.ignored:
        log.info("%d environment variables that this role does not need were ignored", len(session.loaded.ignored))

    def ready(started: Started) -> None:
        is_up()
        log.info("started", extra={"port": started.port, "engine": started.url.partition(":")[0]})
        if started.role.serves:
            print_banner(started, session.config.api.host)

    run_on_fast_loop(run_role(role, session.config, queue, tuning, ready, transcodes=transcodes))


def set_up_logs(session: CliSession) -> None:
    observability = session.config.observability
    configure_logging(
        observability.log_level,
        observability.log_format,
        strict=os.environ.get("EUTERPE_ENV") in ("dev", "test"),
        namespace=observability.namespace,
    )


def warn_of_two_databases(session: CliSession, queue: Queue) -> None:
    """The app's queue decides where its jobs live. Say so when the configuration names another place."""
    if session.url not in (EngineConfig().url, with_list_settings(session.config, queue.url)):
        log.warning(
            "the app's queue is in another database or schema than the configuration names; its own is used. "
            "Set ENGINE_URL to the queue's URL, so that commands such as `euterpe jobs list` look there too"
        )


def run_on_fast_loop(main: Coroutine[Any, Any, None]) -> None:
    """uvloop where it is installed, asyncio's own loop elsewhere."""
    relax_collector()
    try:
        import uvloop
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)
