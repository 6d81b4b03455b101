"""`euterpe failures`: failed jobs by cause; run one cause again, or keep a copy of it."""

from __future__ import annotations

from typing import Any, BinaryIO, Final

import click
import msgspec

from euterpe.backends.engines import Backend
from euterpe.cli.commands.bulk.matching import act_on_matching
from euterpe.cli.documents import job_with_attempts
from euterpe.cli.output import age, note, print_json, print_table, shown_json
from euterpe.cli.session import CliSession, database_options, json_option, yes_option
from euterpe.cli.values import ParamType
from euterpe.model.bulk import Action
from euterpe.model.failures.fingerprint import FINGERPRINT
from euterpe.model.failures.group import group_document
from euterpe.model.reading.views import Search

PAGE: Final = 200


class Fingerprint(ParamType):
    """As `failures list` shows it."""

    name = "fingerprint"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value).lower()
        if not FINGERPRINT.fullmatch(text):
            self.fail(f"{value!r} is not a fingerprint; `euterpe failures list` shows them", param, ctx)
        return text


@click.group()
def failures() -> None:
    """List failed jobs by cause; retry, replay and export one cause."""


@failures.command("list")
@click.option("--limit", type=click.IntRange(1, 200), default=20, show_default=True, help="Show at most this many.")
@json_option
@database_options
@click.pass_obj
def list_failures(session: CliSession, limit: int, as_json: bool) -> None:
    """List causes of failures, the most recent first."""
    found = session.ask(lambda backend: backend.store.failure_groups(limit=limit))
    if as_json:
        print_json({"groups": [group_document(group) for group in found.groups], "more": found.more})
        return
    if not found.groups:
        note("No failures with a known cause.")
        return
    print_table(
        ("fingerprint", "type", "jobs", "first", "last", "error"),
        [
            (
                g.fingerprint,
                g.type,
                g.count if g.exact else f">{g.count}",
                age(g.first_at),
                age(g.last_at),
                f"{g.code}: {g.message}",
            )
            for g in found.groups
        ],
        flexible="error",
    )
    if found.more:
        note("There are more causes; --limit shows up to 200 of them.")
    note(f"next: euterpe failures replay {found.groups[0].fingerprint}")


def _again(action: Action, about: str) -> None:
    @failures.command(str(action), help=about)
    @click.argument("fingerprint", type=Fingerprint())
    @click.option("--detach", is_flag=True, help="Do not wait for the operation to end.")
    @yes_option
    @json_option
    @database_options
    @click.pass_obj
    def command(session: CliSession, fingerprint: str, detach: bool, yes: bool, as_json: bool) -> None:
        act_on_matching(session, action, f"fingerprint:{fingerprint}", yes=yes, detach=detach, as_json=as_json)


_again(Action.RETRY, "Run the jobs of one cause again: the same job if it has attempts left, otherwise a new one.")
_again(Action.REPLAY, "Run the jobs of one cause again, each as a new job.")


@failures.command()
@click.argument("fingerprint", type=Fingerprint())
@click.option("--out", type=click.File("wb", lazy=True), default="-", metavar="FILE", help="Default: standard output.")
@database_options
@click.pass_obj
def export(session: CliSession, fingerprint: str, out: BinaryIO) -> None:
    """Write the jobs of one cause with all their attempts, as one JSON document per line."""

    async def write(backend: Backend) -> int:
        count, cursor = 0, None
        while True:
            page = await backend.store.search(Search(fingerprint=fingerprint, limit=PAGE, cursor=cursor))
            for job in page.jobs:
                document = job_with_attempts(job, await backend.store.attempts(job.id))
                out.write(shown_json(msgspec.json.encode(document)) + b"\n")
                count += 1
            cursor = page.cursor
            if cursor is None:
                return count

    note(f"{session.ask(write)} failed jobs exported")
