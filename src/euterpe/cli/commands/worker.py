"""`euterpe worker myapp:queue`: run the jobs of the user's own queue."""

from __future__ import annotations

import sys
from dataclasses import replace

import click

from euterpe.cli.apps import load_queue
from euterpe.cli.commands.role import run_here
from euterpe.cli.processes import run_several
from euterpe.cli.reload.reloader import run_reloading
from euterpe.cli.session import CliSession, database_options
from euterpe.cli.values import DURATION, NAMES
from euterpe.model.errors import InvalidInput
from euterpe.queue.queue import core_of
from euterpe.service.recycling import Recycling
from euterpe.service.roles import WORKER, tuning_of


@click.command()
@click.argument("app", metavar="MODULE:QUEUE")
@click.option("--concurrency", type=click.IntRange(min=1), metavar="N", help="Jobs at once; default: worker.count.")
@click.option("--queues", type=NAMES, metavar="A,B", help="Queues, preferred first; default: worker.consume.")
@click.option("--grace", type=DURATION, metavar="DURATION", help="Time for running jobs to finish; default: 30s.")
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), metavar="PORT", help="Port for health and metrics; 0: none."
)
@click.option("--processes", type=click.IntRange(1, 256), default=1, metavar="N", help="Number of worker processes.")
@click.option("--max-jobs", type=click.IntRange(min=1), metavar="N", help="Replace a process after this many jobs.")
@click.option("--max-memory", type=click.IntRange(min=1), metavar="MB", help="Replace a process above this size.")
@click.option("--reload", "reloads", is_flag=True, help="Restart when a Python file changes; for development.")
@database_options
@click.pass_obj
def worker(
    session: CliSession,
    app: str,
    concurrency: int | None,
    queues: tuple[str, ...] | None,
    grace: int | None,
    metrics_port: int | None,
    processes: int,
    max_jobs: int | None,
    max_memory: int | None,
    reloads: bool,
) -> None:
    """Run the jobs of your own queue, found in the current folder: euterpe worker myapp:queue.

    After SIGTERM or Ctrl-C the worker takes no more jobs, and running jobs have the grace time to finish. After a
    second one they go back to the queue at once. No job is lost and no attempt is charged in either case.

    With --processes the module is imported once, and each process is forked from there. A process that dies is started
    again.
    """
    if reloads:
        sys.exit(run_reloading(app))
    session.needed = WORKER.needs
    tuning = tuning_of(session.config)
    queue = load_queue(app)
    if not core_of(queue).handlers.types:
        raise InvalidInput("app", f"{app} has no job types; import the module that declares them in it")
    tuning = replace(
        tuning,
        concurrency=concurrency or tuning.concurrency,
        queues=queues or tuning.queues,
        grace_us=tuning.grace_us if grace is None else grace,
        metrics_port=tuning.metrics_port if metrics_port is None else metrics_port,
        metrics_needed=metrics_port is not None,
    )
    if processes == 1 and max_jobs is None and max_memory is None:
        run_here(session, WORKER, queue, tuning)
    else:
        tuning = replace(tuning, recycling=Recycling(max_jobs, max_memory) if max_jobs or max_memory else None)
        sys.exit(run_several(session, queue, tuning, processes))
