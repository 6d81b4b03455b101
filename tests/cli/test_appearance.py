"""How the command line looks: help that is quick and true, tables that fit, pipes that stay plain."""

from __future__ import annotations

import json
import os
import pty
import re
import sqlite3
import struct
import subprocess
import sys
import termios
from contextlib import closing
from fcntl import ioctl
from importlib import import_module
from pathlib import Path

import click
import pytest

from euterpe.backends.engines import Backend, sqlite_path
from euterpe.cli.main import COMMANDS, root
from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Failed
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.submitting.submission import Submission
from tests.cli.commands import EUTERPE, Shell
from tests.cli.states import dead_letters, with_store

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"


def leaves(command: click.Command, name: str) -> list[str]:
    """Every command by its whole name: `keys secrets rotate`."""
    if not isinstance(command, click.Group):
        return [name]
    context = click.Context(command)
    found = []
    for child_name in command.list_commands(context):
        child = command.get_command(context, child_name)
        assert child is not None
        found += leaves(child, f"{name} {child_name}".strip())
    return found


@pytest.mark.parametrize("name", leaves(root, ""))
def test_every_command_is_described_in_the_docs(name: str) -> None:
    assert f"`euterpe {name}" in DOCS.read_text()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_in_the_help_is_the_first_sentence_of_the_command_itself(name: str) -> None:
    module, _, attribute = COMMANDS[name].place.partition(":")
    command: click.Command = getattr(import_module(module), attribute)
    said = re.split(r"[:;]", COMMANDS[name].about)[0].rstrip(".")
    assert (command.help or "").startswith(said)


def test_the_help_loads_no_driver_no_server_and_no_tables() -> None:
    program = (
        "import sys\nfrom euterpe.cli import main\nsys.argv = ['euterpe', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = ('apsw', 'asyncpg', 'uvicorn', 'rich', 'cryptography', 'yaml')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    for name in COMMANDS:
        assert re.search(rf"^  {name} ", done.stdout, re.MULTILINE)
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_a_pipe_gets_whole_rows_without_colours(sqlite_shell: Shell) -> None:
    long_type = "reports.quarterly." + "x" * 100
    (job_id,) = dead_letters(sqlite_shell.environ["ENGINE_URL"], long_type)
    header, row = sqlite_shell.ok("dlq", "list").splitlines()
    assert header.split() == ["JOB_ID", "TYPE", "STATE", "ATTEMPTS", "AGE"]
    assert row.split()[:4] == [job_id, long_type, "dead_letter", "1/1"]
    assert "\x1b" not in header + row


def test_a_terminal_of_80_columns_gets_a_table_that_fits_with_the_id_in_full(sqlite_shell: Shell) -> None:
    sneaky = "reports.\x1b]0;owned\x07" + "x" * 100
    (job_id,) = dead_letters(sqlite_shell.environ["ENGINE_URL"], sneaky)
    screen = on_a_terminal(sqlite_shell, "dlq", "list")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", screen)
    assert job_id in plain
    assert re.search(r"\x1b\[[0-9;]*31m", screen)  # a dead letter is red
    assert "\x1b]" not in screen  # what a job type holds does not draw on the terminal
    assert all(len(line) <= 80 for line in plain.splitlines())
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", on_a_terminal(sqlite_shell, "dlq", "list", NO_COLOR="1"))


def on_a_terminal(shell: Shell, *arguments: str, codes: tuple[int, ...] = (0,), **environ: str) -> str:
    """What a person with an 80 by 24 terminal sees."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    env = shell.environ | {"TERM": "xterm-256color"} | environ
    with subprocess.Popen(
        [*EUTERPE, *arguments], cwd=shell.folder, env=env, stdout=theirs, stderr=theirs, stdin=theirs
    ) as p:
        os.close(theirs)
        seen = b""
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            if not chunk:
                break
            seen += chunk
        assert p.wait(30) in codes
    os.close(ours)
    return seen.decode()


def test_json_at_a_terminal_draws_nothing_on_it_and_is_the_same_json(sqlite_shell: Shell) -> None:
    odd = "a\u202eb\u2066c\u009b31md\u200fe\x7ff\u2028g\U000e0041h\N{PILE OF POO}"
    sqlite_shell.ok("submit", "t", json.dumps({"odd": odd}, ensure_ascii=False), "--tag", f"odd={odd}")
    piped = sqlite_shell.ok("jobs", "list", "--json")
    assert odd in piped, "in a pipe it is as it was stored"
    shown = on_a_terminal(sqlite_shell, "jobs", "list", "--json")
    assert all(char.isprintable() or char in "\r\n" for char in shown)
    assert json.loads(shown) == json.loads(piped)


DRAWS = "\x1b]0;owned\x07\x1b[2J\r\nforged\u009b31m\u202e"
"""A terminal that gets this as it is changes its title, clears itself and shows a line that nobody printed."""
SAYS_STORED_TEXT = (
    ("stats",),
    ("jobs", "list"),
    ("jobs", "show", "JOB"),
    ("dlq", "export", "--all"),
    ("peek",),
    ("jobs", "retry", "JOB"),
)


def hostile_database(shell: Shell) -> str:
    """A dead letter whose every text draws on the terminal; its id."""
    url = shell.environ["ENGINE_URL"]

    async def act(backend: Backend) -> str:
        said = Submission(
            type=f"type{DRAWS}",
            tags={f"name{DRAWS}": f"value{DRAWS}"},
            payload=json.dumps({"payload": DRAWS}, ensure_ascii=False).encode(),
            correlation_id=DRAWS,
            max_attempts=1,
        )
        await backend.store.submit_many([said, said])
        (claim,) = await backend.store.claim(ClaimRequest(worker_id=f"worker{DRAWS}:1", limit=1))
        failure = Failure(Category.TEMPORARY, f"message{DRAWS}", f"code{DRAWS}")
        await backend.store.settle([Report(claim, Failed(failure))])
        await backend.store.pause("type", f"paused{DRAWS}")
        return claim.job.id

    job_id = with_store(url, act)
    with closing(sqlite3.connect(sqlite_path(url))) as connection, connection:
        refuse = f"SELECT RAISE(ABORT, 'trigger{DRAWS}')"
        connection.execute(f"CREATE TRIGGER of_somebody_else BEFORE INSERT ON inbox_jobs BEGIN {refuse}; END")
    return job_id


def test_stored_text_draws_on_no_terminal_whichever_command_shows_it(sqlite_shell: Shell) -> None:
    job_id = hostile_database(sqlite_shell)
    shown = ""
    for arguments in SAYS_STORED_TEXT:
        named = tuple(job_id if word == "JOB" else word for word in arguments)
        screen = on_a_terminal(sqlite_shell, *named, codes=(0, 1), NO_COLOR="1")
        own = re.sub(r"\x1b\[[0-9;]*m", "", screen.replace("\r\n", "\n"))  # bold headers are ours
        assert all(char.isprintable() or char == "\n" for char in own), f"{named} drew: {screen!r}"
        assert not re.search("^forged", own, re.MULTILINE), f"{named} printed a line that nobody wrote"
        shown += own
    for word in ("type", "name", "payload", "message", "code", "paused", "trigger"):
        assert f"{word}\\x1b]0;owned" in shown or f'{word}": "\\u001b' in shown or f"{word}\\u001b" in shown, word


def test_a_pipe_gets_stored_text_as_escapes_too_unless_it_asks_for_json(sqlite_shell: Shell) -> None:
    job_id = hostile_database(sqlite_shell)
    for arguments in (("jobs", "retry", job_id), ("submit", "t"), ("stats",), ("jobs", "show", job_id)):
        done = sqlite_shell.run(*arguments)
        assert "\x1b" not in done.stdout + done.stderr, arguments
        assert "owned" in done.stdout + done.stderr, arguments
    assert sqlite_shell.json("jobs", "show", job_id)["type"] == f"type{DRAWS}"
