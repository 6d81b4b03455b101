"""`euterpe prune`: housekeeping at once, with its progress."""

from __future__ import annotations

import time
from typing import Final

import click

from euterpe.backends.engines import Backend, is_control_plane
from euterpe.cli.output import confirm, note, print_json, print_line, span
from euterpe.cli.session import CliSession, database_options, json_option, needed_by_commands, yes_option
from euterpe.config import retention_of
from euterpe.model.errors import Unsupported
from euterpe.model.retention import TIDY_LIMIT, Chore

PROGRESS_S: Final = 2.0


@click.command()
@yes_option
@json_option
@database_options
@click.pass_obj
def prune(session: CliSession, yes: bool, as_json: bool) -> None:
    """Remove now what retention no longer keeps: ended jobs, webhook events, keys and marks of removed jobs.

    Workers do the same every few minutes, with pauses. `retention.*` of the configuration says what is kept. You may
    interrupt the command and run it again."""
    session.needed = lambda key: needed_by_commands(key) or key.startswith(("retention.", "redis."))
    if is_control_plane(session.url):
        raise Unsupported(
            "a control plane cannot be told to prune; name the database behind it with --engine or ENGINE_URL"
        )
    retention = retention_of(session.config.retention)
    kept = ", ".join(f"{state} {span(keep_us)}" for state, keep_us in retention.jobs_us.items())
    confirm(f"Remove jobs that ended longer ago than this: {kept}?", yes=yes)

    async def act(backend: Backend) -> dict[str, int]:
        backend.store.sweeps.retention = retention
        return {str(chore): await _work_off(backend, chore) for chore in Chore}

    removed = session.ask(act)
    if as_json:
        print_json({"removed": removed})
        return
    gone = ", ".join(f"{count:,} {chore.replace('_', ' ')}" for chore, count in removed.items() if count)
    print_line(f"removed {gone}" if gone else "nothing to remove")


async def _work_off(backend: Backend, chore: Chore) -> int:
    """A short transaction after the other, so that workers on the same database go on."""
    removed, told_at = 0, time.monotonic()
    while True:
        gone = await backend.store.sweeps.tidy(chore, TIDY_LIMIT)
        removed += gone
        if gone < TIDY_LIMIT:
            return removed
        if time.monotonic() - told_at > PROGRESS_S:
            told_at = time.monotonic()
            note(f"{removed:,} {chore.replace('_', ' ')} removed so far")
