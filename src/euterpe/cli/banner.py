"""What `./run` prints once everything is up: where to look, a command that works as pasted, what to type next."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import click

from euterpe.config import redact_url
from euterpe.service.roles import Started

ECHO = "euterpe.echo"


def print_banner(started: Started, host: str) -> None:
    """On standard output; the logs go to standard error."""
    click.echo("\n".join(lines(started, host, command_name())))
    sys.stdout.flush()


def lines(started: Started, host: str, command: str) -> list[str]:
    base = f"http://{_reachable(host)}:{started.port}"
    output = [
        "",
        f"Euterpe is up on {redact_url(started.url)}",
        "",
        f"  Look     {base}{started.dashboard or '/'}" + (" (signs in once)" if started.dashboard else ""),
        f"  API      {base}",
        f"  Docs     {base}/docs",
        f"  Health   {base}/readyz",
        f"  Metrics  {base}/metrics",
        "",
    ]
    created, kept_in = started.first_key.created, started.first_key.kept_in
    if created is not None:
        output += [
            "Your API key and webhook secret, shown this once:",
            "",
            f"  {created.key}",
            f"  {created.webhook_secret}",
            "",
            f"A copy of the key is in {kept_in}.",
        ]
    bearer = _bearer(started)
    if bearer is None:
        output += ["Make an API key:", "", f"  {command} keys create --requester me --scope submit,read", ""]
        bearer = "'Authorization: Bearer PUT-YOUR-KEY-HERE'"
        output += ["Then submit a job:", ""]
    else:
        output += ["Submit a job, in another terminal:", ""]
    output += [
        f"  curl -sS {base}/jobs -H 'Content-Type: application/json' \\",
        f"    -H {bearer} \\",
        f"    -d {shlex.quote(_example(started.types))}",
        "",
        "See what came of it:",
        "",
        f"  {command} jobs list",
        "",
        *_transcoding(started, base, bearer),
        "Ctrl-C stops everything; what was submitted stays.",
        "",
    ]
    return output


def _transcoding(started: Started, base: str, bearer: str) -> list[str]:
    """A transcode that works as pasted: its source was made for it."""
    if started.sample is None:
        return []
    body = {
        "source": {"type": "local", "path": started.sample},
        "destination": {"type": "local", "prefix": "out/"},
        "outputs": [
            {"id": "mp3", "kind": "audio", "preset": "mp3_320"},
            {"id": "peaks", "kind": "waveform", "format": "json"},
        ],
    }
    return [
        "Transcode a sound (it was made for you), and see how it goes:",
        "",
        f"  curl -sS {base}/transcode -H 'Content-Type: application/json' \\",
        f"    -H {bearer} \\",
        f"    -d {shlex.quote(json.dumps(body))}",
        "",
        f"  curl -sS -H {bearer} \\",
        f"    '{base}/transcode/status?job_id=PUT-THE-JOB-ID-HERE'",
        "",
    ]


def _bearer(started: Started) -> str | None:
    """The header as it stands in a shell command: the key itself when it is new, else read from where it is kept."""
    created, kept_in = started.first_key.created, started.first_key.kept_in
    if created is not None:
        return shlex.quote(f"Authorization: Bearer {created.key}")
    if kept_in is not None:
        return f'"Authorization: Bearer $(cat {shlex.quote(str(kept_in.absolute()))})"'
    return None


def _example(types: tuple[str, ...]) -> str:
    """A submission that somebody here can run: the built-in one, or the first of the user's own job types."""
    if not types or ECHO in types:
        return f'{{"type": "{ECHO}", "payload": {{"hello": "world"}}}}'
    return f'{{"type": "{types[0]}", "payload": {{}}}}'


def _reachable(host: str) -> str:
    """An address to type: whoever listens everywhere is reached here too."""
    if host in ("0.0.0.0", "::", ""):  # noqa: S104  # compared with, not bound to
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def command_name() -> str:
    """How this very command was called, so that the next one can be pasted: `euterpe`, or `.venv/bin/euterpe`."""
    program = Path(sys.argv[0])
    if program.name != "euterpe":
        return "euterpe"
    try:
        return str(program.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(program) if program.is_absolute() else program.name
