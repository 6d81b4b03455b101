"""The root of the command line: global options, the roles, and the list of commands."""

from __future__ import annotations

import platform

import click

import euterpe
from euterpe.cli.lazy import LazyCommand, LazyGroup

RUN, JOBS, OPERATE, WEBHOOKS = "Run", "Jobs", "Operate", "Keys and webhooks"
COMMANDS = {
    "worker": LazyCommand("euterpe.cli.commands.worker:worker", "Run the jobs of your own queue.", RUN),
    "transcode": LazyCommand(
        "euterpe.cli.commands.transcode:transcode", "Transcode files on this machine, without a server.", RUN
    ),
    "demo": LazyCommand(
        "euterpe.cli.commands.demo:demo", "Show the queue at work, with a worker killed in the middle.", RUN
    ),
    "submit": LazyCommand("euterpe.cli.commands.submit:submit", "Submit a job.", JOBS),
    "status": LazyCommand("euterpe.cli.commands.submit:status", "Show the status of a job.", JOBS),
    "jobs": LazyCommand(
        "euterpe.cli.commands.jobs:jobs",
        "List, show, explain, cancel, retry, replay, update and dead-letter jobs.",
        JOBS,
    ),
    "dlq": LazyCommand("euterpe.cli.commands.dlq:dlq", "List, replay, export and purge dead letters.", JOBS),
    "failures": LazyCommand(
        "euterpe.cli.commands.bulk.failures:failures",
        "List failed jobs by cause; retry, replay and export one cause.",
        JOBS,
    ),
    "operations": LazyCommand(
        "euterpe.cli.commands.bulk.operations:operations",
        "List, show and cancel bulk operations.",
        JOBS,
    ),
    "top": LazyCommand(
        "euterpe.cli.commands.top:top", "Watch queues, workers, running jobs and failures, live.", OPERATE
    ),
    "workers": LazyCommand("euterpe.cli.commands.workers:workers", "List the workers that are alive.", OPERATE),
    "stats": LazyCommand(
        "euterpe.cli.commands.operate:stats", "Count jobs by queue and state, with ages and rates.", OPERATE
    ),
    "peek": LazyCommand(
        "euterpe.cli.commands.operate:peek", "Show what a worker would claim next, without claiming it.", OPERATE
    ),
    "pause": LazyCommand(
        "euterpe.cli.commands.operate:pause", "Stop every worker from claiming a queue or a job type.", OPERATE
    ),
    "resume": LazyCommand(
        "euterpe.cli.commands.operate:resume", "Let workers claim a paused queue or job type again.", OPERATE
    ),
    "cron": LazyCommand("euterpe.cli.commands.steering.cron:cron", "List, pause, resume, edit and run crons.", OPERATE),
    "rates": LazyCommand(
        "euterpe.cli.commands.steering.rates:rates", "List, set and remove the rates of keys.", OPERATE
    ),
    "doctor": LazyCommand(
        "euterpe.cli.commands.doctor:doctor",
        "Check the queue for problems, and say what to do about them.",
        OPERATE,
    ),
    "bench": LazyCommand(
        "euterpe.cli.commands.bench:bench", "Measure the queue's speed on your own database.", OPERATE
    ),
    "config": LazyCommand(
        "euterpe.cli.commands.config:config", "Show the configuration, or print an example file.", OPERATE
    ),
    "prune": LazyCommand("euterpe.cli.commands.prune:prune", "Remove now what retention no longer keeps.", OPERATE),
    "migrate": LazyCommand("euterpe.cli.commands.operate:migrate", "Bring the database's schema up to date.", OPERATE),
    "keys": LazyCommand(
        "euterpe.cli.commands.webhooks.keys:keys",
        "Create, list, rotate and revoke API keys and webhook secrets.",
        WEBHOOKS,
    ),
    "outbox": LazyCommand(
        "euterpe.cli.commands.webhooks.outbox:outbox", "List webhook events and send them again.", WEBHOOKS
    ),
    "kek": LazyCommand(
        "euterpe.cli.commands.webhooks.kek:kek", "Show key-encryption keys and rewrap secrets.", WEBHOOKS
    ),
}


def _say_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from euterpe.backends.versions import engine_versions

    click.echo(f"euterpe {euterpe.__version__}\nPython {platform.python_version()} on {platform.platform()}")
    for engine, found in engine_versions().items():
        click.echo(f"{engine}: {found}")
    ctx.exit()


@click.group(cls=LazyGroup, known=COMMANDS, invoke_without_command=True, context_settings={"max_content_width": 100})
@click.option(
    "--role", type=click.Choice(["all", "api", "worker", "outbox", "producer"]), help="Run this part of the system."
)
@click.option("--app", metavar="MODULE:QUEUE", help="With --role: your queue, whose jobs the worker runs.")
@click.option("--reload", "reloads", is_flag=True, help="With --app: restart when a Python file changes.")
@click.option("--config", metavar="PATH", help="The configuration file (YAML); defaults apply without it.")
@click.option("--engine", metavar="URL", help="The database, or ENGINE_URL; default: sqlite:///.euterpe/jobs.db")
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_say_version, help="Show versions and exit."
)
@click.pass_context
def root(
    ctx: click.Context, role: str | None, app: str | None, reloads: bool, config: str | None, engine: str | None
) -> None:
    """Euterpe, a durable job queue on the database you already run.

    \b
    euterpe --role=all              run everything: API, worker, sweeps
    euterpe worker myapp:queue      run the jobs of your own queue
    """
    from euterpe.cli.session import CliSession

    session = ctx.obj = CliSession(config, engine)
    if ctx.invoked_subcommand is not None:
        if role is not None or app is not None or reloads:
            raise click.UsageError("--role, --app and --reload run the system; they take no command")
        return
    if role is None:
        click.echo(ctx.get_help())
        return
    if reloads:
        if app is None:
            raise click.UsageError("--reload goes with --app myapp:queue")
        from euterpe.cli.reload.reloader import run_reloading

        ctx.exit(run_reloading(app))
    from euterpe.cli.commands.role import start

    start(session, role, app)
