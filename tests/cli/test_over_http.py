"""Every command and every option on an `http://` queue: it works, or says in one line what to do instead."""

from __future__ import annotations

import re
import shlex
import sys
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import click
import pytest

from euterpe.cli import complain
from euterpe.cli.main import root
from euterpe.model.claims.outcome import Failed
from euterpe.model.errors import EuterpeError
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.submitting.submission import Submission
from tests.cli.commands import Shell
from tests.cli.conftest import Start
from tests.cli.states import dead_letters, settled, with_store
from tests.cli.test_roles import GOOD_BYE, address_of

WORKS = """
submit greet '{{"name": "a"}}' --queue slow --priority high --max-attempts 2 --timeout 1m --idempotency-key k1 --json
submit greet --correlation-id c --tag a=b --depends-on {waiting} --dependency after_any --app over_http_app:queue
submit greet '{{"name": "a"}}' --delay 5m --callback-url https://hooks.example/
submit greet '{{"name": "a"}}' --run-at {soon}
status {waiting} --json
jobs list -q 'created:<1h ended:>7d' --state dead_letter --type mail --queue default --tag a=b --limit 3 --json
jobs list --cursor 5
jobs show {dead} --json
jobs show {dead} --logs
jobs why {waiting} --json
jobs update {waiting} --priority high --tag a=b --correlation-id c --callback-url https://hooks.example/ --json
jobs cancel {waiting} --force --yes --json
jobs cancel --query type:nothing --detach --yes
jobs retry {dead} --json
jobs retry --query type:nothing --detach --yes
jobs replay --query type:nothing --detach --yes --json
jobs dead-letter {failed} --yes --json
dlq list --type mail --queue default --limit 3 --cursor 5 --json
dlq export {dead}
dlq export --all --out dead.jsonl
dlq export --type mail --queue default --older-than 1h
dlq replay {dead} --json
dlq replay --type mail --queue default --older-than 1h
dlq purge {dead} --yes --json
dlq purge --type mail --queue default --older-than 1h --yes
dlq replay --all
dlq purge --all --yes
failures list --limit 3 --json
failures export {fingerprint} --out failed.jsonl
failures retry {fingerprint} --detach --yes --json
failures replay {fingerprint} --detach --yes --json
operations list --limit 3 --json
operations show {operation} --json
stats --json
workers list --json
pause --queue slow
resume --queue slow
pause --type mail
resume --type mail
doctor --all --json
config show --json
migrate --json
"""
REFUSED = """
submit greet --wait 1ms
operations cancel 00000000-0000-4000-8000-000000000000 --json
peek --queues default --limit 3 --json
cron list --json
cron run greet:greet --app over_http_app:queue --since 2026-01-01T00:00:00Z --until 2026-01-01T02:30:00Z
cron edit greet:greet '* * * * *' --tz UTC
cron forget greet:greet
cron pause greet:greet
cron resume greet:greet
rates list --json
rates set k 5/s --burst 3 --requester local
rates remove k --requester local
bench --jobs 100 --concurrency 2 --batch 2 --json
keys create --requester shop --scope read --expires 1d --json
keys list --requester shop --json
keys rotate ek_aaaaaaaa --grace 1h --json
keys revoke ek_aaaaaaaa --yes --json
keys secrets list --requester shop --json
keys secrets rotate --requester shop --grace 1h --json
keys secrets retire x --yes --json
outbox list --state scheduled --job {waiting} --requester local --limit 3 --cursor 5 --json
outbox redeliver --all --requester local --yes --json
kek status --json
kek rewrap --json
prune --yes --json
"""
NEXT_STEP = re.compile(r"--engine or ENGINE_URL|name the database behind it|see: euterpe jobs why|no operation")
ELSEWHERE = {
    ("worker",): "tests/cli/test_worker_over_http.py runs one",
    ("top",): "a screen: tests/tui",
    ("transcode",): "works on files and has no queue",
    ("demo",): "makes a queue of its own",
    ("config", "example"): "prints a file",
}
EVERYWHERE = {"--engine", "--config", "--json", "--help"}

APP = """
import os
import euterpe
queue = euterpe.Queue(os.environ["ENGINE_URL"])


@queue.cron("0 * * * *", name="greet")
@queue.job("greet")
async def greet(name: str = "nobody") -> None: ...
"""


def declared(command: click.Command, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], set[str]]:
    """The options of every command."""
    if not isinstance(command, click.Group):
        longest = {max(p.opts, key=len) for p in command.params if isinstance(p, click.Option)}
        return {path: longest - EVERYWHERE}
    context = click.Context(command)
    found: dict[tuple[str, ...], set[str]] = {}
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        found |= declared(below, (*path, name))
    return found


COMMANDS = declared(root)


def path_of(words: list[str]) -> tuple[str, ...]:
    return next(tuple(words[:n]) for n in (1, 2, 3) if tuple(words[:n]) in COMMANDS)


def rows(table: str) -> list[list[str]]:
    return [shlex.split(line) for line in table.replace("-q ", "--query ").strip().splitlines()]


def test_the_tables_hold_every_command_with_every_option() -> None:
    used: dict[tuple[str, ...], set[str]] = {path: set() for path in ELSEWHERE}
    for words in rows(WORKS) + rows(REFUSED):
        used.setdefault(path_of(words), set()).update(word for word in words if word.startswith("--"))
    assert used.keys() == COMMANDS.keys()
    missing = {path: options - used[path] for path, options in COMMANDS.items() if path not in ELSEWHERE}
    assert {path: options for path, options in missing.items() if options} == {}


class Prepared:
    """Jobs in the state that a row asks for; made in the database behind the control plane."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._types = (f"mail.{number}" for number in count())

    def __getitem__(self, name: str) -> str:
        match name:
            case "waiting":
                return with_store(self._url, lambda b: b.store.submit(Submission(type="greet"))).job_id
            case "soon":
                return (datetime.now(UTC) + timedelta(hours=1)).isoformat()
            case "dead":
                return dead_letters(self._url, next(self._types))[0]
            case "failed":
                refused = Failed(Failure(Category.PERMANENT, "no such address", "no_address"))
                return settled(self._url, [Submission(type=next(self._types))], refused)[0]
            case "fingerprint":
                dead_letters(self._url, next(self._types))
                return with_store(self._url, lambda b: b.store.failure_groups()).groups[0].fingerprint
            case "operation":
                return with_store(self._url, lambda b: b.store.operations.list())[0].id
        raise KeyError(name)


def run(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code: int | str | None = 0
    try:
        root(words, prog_name="euterpe")
    except SystemExit as ended:
        code = ended.code
    except EuterpeError as error:
        code = complain(error)
    out, err = capsys.readouterr()
    return int(code or 0), out, err


def test_every_command_works_over_http_or_says_what_to_do(
    sqlite_shell: Shell, start: Start, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    database = sqlite_shell.environ["ENGINE_URL"]
    server = start(sqlite_shell, "--role=api")
    server.until_said(GOOD_BYE)
    key = sqlite_shell.json("keys", "create", "--requester", "local", "--scope", "submit,read,worker,admin")["key"]
    for name, value in sqlite_shell.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ENGINE_URL", address_of(server).replace("http://", f"http://:{key}@"))
    monkeypatch.chdir(sqlite_shell.folder)
    monkeypatch.setattr(sys, "path", [str(sqlite_shell.folder), *sys.path])
    Path("over_http_app.py").write_text(APP)
    prepared = Prepared(database)
    wrong = []
    for table, works in ((WORKS, True), (REFUSED, False)):
        for words in rows(table):
            said = [word.format_map(prepared) for word in words]
            code, out, err = run(said, capsys)
            one_line = len(err.splitlines()) == 1 and NEXT_STEP.search(err) is not None
            if code != (0 if works else 1) or not (works or one_line):
                wrong.append(f"{shlex.join(words)}: {code}\n{out}{err}")
    assert wrong == [], "\n".join(wrong)
    left_behind = {path.name for path in Path().rglob("*") if path.suffix == ".keks"}
    assert left_behind == set(), "a command that is refused made a key file first"
