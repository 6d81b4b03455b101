"""The page docs/transcode-s3.md, followed: its configuration, its commands, its program, against a real S3 and STS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Shell, clean_environment
from tests.cli.conftest import Start
from tests.cli.test_roles import GOOD_BYE, address_of
from tests.cli.test_transcode import make_tone
from tests.docs.pages import ROOT, Block, blocks_of
from tests.patience import looks
from tests.servers.process import free_port
from tests.servers.s3 import MotoServer

PAGE = ROOT / "docs" / "transcode-s3.md"


def titled(title: str) -> list[Block]:
    return [block for block in blocks_of(PAGE) if (block.title or "").startswith(title)]


EXPIRES_SOON = """
def _expiring(made):
    from datetime import UTC, datetime, timedelta

    def first_soon(track, seen=[]):
        credentials = made(track)
        if not seen:
            seen.append(track)
            soon = (datetime.now(UTC) + timedelta(seconds=90)).isoformat()
            for keys in credentials.values():
                keys["expires_at"] = soon
        return credentials

    return first_soon


scoped_credentials = _expiring(scoped_credentials)
"""
"""The first keys run out so soon that the worker asks for others."""


def test_the_page_leads_from_keys_to_a_verified_webhook(tmp_path: Path, start: Start) -> None:
    blocks = blocks_of(PAGE)
    (settings,) = (block.text for block in blocks if block.language == "yaml")
    (said,) = (block.text for block in blocks if block.language == "text")
    port = free_port()
    settings = settings.replace("/var/lib/euterpe/work", str(tmp_path / "work"))
    (tmp_path / "euterpe.yaml").write_text(settings.replace("https://euterpe.example.com", f"http://127.0.0.1:{port}"))
    shell = Shell(tmp_path, clean_environment(API_PORT=str(port)))
    with MotoServer() as moto:
        make_tone(tmp_path / "tone.wav")
        send("PUT", f"{moto.url}/music")
        send("PUT", f"{moto.url}/music/masters/track42/master.flac", (tmp_path / "tone.wav").read_bytes())
        system = start(shell, "--role=all", "--config=euterpe.yaml")
        system.until_said(GOOD_BYE)
        asked = ("--requester", "platform", "--scope", "submit,read")
        created = shell.json("--config=euterpe.yaml", "keys", "create", *asked)
        lines, program = platform_of(tmp_path, moto, created, address_of(system))
        program.kill()
        program.wait()
        assert lines[1] == said.strip()
        status = json.loads(send("GET", f"{address_of(system)}/transcode/status?job_id={lines[0]}", key=created["key"]))
        assert (status["status"], status["external_id"]) == ("succeeded", "track42")
        assert status["credential_version"] == 2, "fresh credentials were asked for, and came"
        for key in said.split()[1:]:
            assert send("GET", f"{moto.url}/music/{key}")


def send(method: str, url: str, body: bytes | None = None, key: str = "") -> bytes:
    headers = {"Content-Type": "application/octet-stream"} | ({"Authorization": f"Bearer {key}"} if key else {})
    request = urllib.request.Request(url, body, headers, method=method)  # noqa: S310  # our own servers
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310  # likewise
        found: bytes = answer.read()
    return found


def platform_of(
    folder: Path, moto: MotoServer, created: dict[str, Any], euterpe_url: str
) -> tuple[list[str], subprocess.Popen[str]]:
    """Run the program of the page until it has told of the webhook; returns what it printed."""
    parts = [block.text for block in titled("platform:")]
    assert len(parts) == 3
    (folder / "platform_s3.py").write_text("\n\n".join([parts[0], EXPIRES_SOON, *parts[1:]]))
    port = free_port()
    environ = os.environ | {
        "EUTERPE_URL": euterpe_url,
        "EUTERPE_KEY": created["key"],
        "EUTERPE_WEBHOOK_SECRET": created["webhook_secret"],
        "PLATFORM_URL": f"http://127.0.0.1:{port}",
        "PLATFORM_PORT": str(port),
        "BUCKET": "music",
        "STORE": json.dumps({"endpoint": moto.url, "region": "us-east-1"}),
        "ROLE_ARN": "arn:aws:iam::123456789012:role/transcode",
        "AWS_ENDPOINT_URL": moto.url,
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    out, err = (folder / "platform.out").open("w+"), (folder / "platform.err").open("w+")
    program = subprocess.Popen(
        [sys.executable, str(folder / "platform_s3.py")], env=environ, stdout=out, stderr=err, text=True
    )
    for _ in looks(lambda: (folder / "platform.err").read_text()):
        lines = (folder / "platform.out").read_text().splitlines()
        if len(lines) == 2:
            return lines, program
        if program.poll() is not None:
            pytest.fail((folder / "platform.err").read_text())
    raise AssertionError("looks raises")
