"""Django's connection, on both databases, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]


def run_application(database: dict[str, Any], queue: str) -> dict[str, Any]:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.caller.django_app", json.dumps(database), queue],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    seen: dict[str, Any] = json.loads(ended.stdout)
    return seen


def check(seen: dict[str, Any]) -> None:
    assert seen["committed"] == [1, 1, 1]
    assert seen["rolled_back"] == [1, 1, 1]
    assert seen["replayed"] == [True, True]
    assert seen["child"] == "pending"
    assert seen["after_a_rejection"] == [2, 1, 2]
    assert set(seen["interrupted"]) <= {"whole", "loud"}
    assert seen["interrupted"].count("whole") >= 3, "an interrupted submit should leave the block usable"
    assert "transaction.atomic()" in seen["refused"]


@pytest.mark.parametrize("server_side_binding", [False, True])
def test_a_job_lives_and_dies_with_an_atomic_block_on_postgres(
    fresh_postgres_url: str, server_side_binding: bool
) -> None:
    url = urlsplit(fresh_postgres_url)
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": url.path.strip("/"), "USER": unquote(url.username or ""), "PASSWORD": unquote(url.password or ""),
        "HOST": url.hostname, "PORT": url.port, "OPTIONS": {"server_side_binding": server_side_binding},
    }  # fmt: skip
    check(run_application(database, fresh_postgres_url))


def test_a_job_lives_and_dies_with_an_atomic_block_on_sqlite(tmp_path: Path) -> None:
    file = str(tmp_path / "jobs.db")
    check(run_application({"ENGINE": "django.db.backends.sqlite3", "NAME": file}, file))
