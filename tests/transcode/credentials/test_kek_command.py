"""`euterpe kek` counts and rewraps storage credentials too."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from euterpe.cli.commands.webhooks.kek import kek
from euterpe.cli.session import CliSession
from euterpe.crypto import Keyring
from euterpe.stores.sql.sqlite.engine import SqliteEngine
from euterpe.transcode.credentials.repository import CredentialStore
from tests.transcode.credentials.samples import S3_PLACES, secrets

OLD, NEW = b"o" * 32, b"n" * 32


async def sealed_jobs(path: Path, count: int) -> None:
    engine = SqliteEngine(str(path))
    await engine.migrate()
    await engine.open()
    store = CredentialStore(engine, Keyring({"old": OLD}, "old"))
    for number in range(count):
        await store.create(f"00000000-0000-4000-8000-{number:012d}", "vesta", S3_PLACES, secrets(), None)
    await engine.close()


def run(path: Path, *arguments: str) -> str:
    session = CliSession(None, f"sqlite:///{path}")
    done = CliRunner().invoke(kek, list(arguments), obj=session)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_credentials_are_counted_and_rewrapped_with_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("euterpe.transcode.credentials.repository.REWRAP_BATCH", 2)
    path = tmp_path / "jobs.db"
    asyncio.run(sealed_jobs(path, 5))
    keks = ",".join(f"{name}:{base64.b64encode(key).decode()}" for name, key in (("old", OLD), ("new", NEW)))
    monkeypatch.setenv("EUTERPE_KEKS", keks)
    monkeypatch.setenv("EUTERPE_ACTIVE_KEK", "new")
    before = {row["kek_id"]: row["credentials"] for row in json.loads(run(path, "status", "--json"))["keks"]}
    assert before == {"old": 5, "new": 0}
    assert "5 storage credentials rewrapped by new" in run(path, "rewrap")
    assert json.loads(run(path, "rewrap", "--json"))["credentials"] == {"rewrapped": 0, "active_kek_id": "new"}
    after = {row["kek_id"]: row["credentials"] for row in json.loads(run(path, "status", "--json"))["keks"]}
    assert after == {"old": 0, "new": 5}
    assert "CREDENTIALS" in run(path, "status")
