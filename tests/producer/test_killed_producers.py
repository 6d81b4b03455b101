"""kill -9 of `--role=producer`: no file is lost, and none is enqueued twice."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.cli.commands import Background, Shell, clean_environment
from tests.patience import looks

FILES = 300
KILLED_AT = (1, 120)
"""After so many files the producer of that turn is killed."""
LOOK_S = 0.05
"""Each look reads all that is there, on the cores that the producer needs to start."""

Enqueued = Callable[[], list[str]]
"""The paths of all jobs that are there, as often as they are there."""


def in_sqlite(database: Path) -> list[str]:
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10) as connection:
            rows = connection.execute("SELECT payload FROM inbox_jobs").fetchall()
    except sqlite3.OperationalError:
        return []  # not made yet
    return [json.loads(payload)["filepath"] for (payload,) in rows]


def in_redis(url: str) -> list[str]:
    """Of the list, which is what workers take from; each entry must have its record, and each record its entry."""
    with redis.Redis.from_url(url, decode_responses=True) as client, client.pipeline(transaction=True) as pipe:
        pipe.lrange("jobqueue:low_priority", 0, -1)
        pipe.hgetall("jobqueue:counts")
        entries, counts = pipe.execute()
    assert sum(map(int, counts.values())) == len(entries)
    return [json.loads(entry)["filepath"] for entry in entries]


@pytest.fixture(params=["sqlite", "redis"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Enqueued]:
    if request.param == "redis":
        url: str = request.getfixturevalue("redis_url")
        return url, lambda: in_redis(url)
    database = tmp_path / "jobs.db"
    return f"sqlite:///{database}", lambda: in_sqlite(database)


def until(enqueued: Enqueued, count: int, producer: Background) -> None:
    there = 0
    for _ in looks(lambda: f"{there} of {count} jobs", every_s=LOOK_S):
        if (there := len(enqueued())) >= count:
            return
        assert producer.process.poll() is None, "".join(producer.err)


def test_a_producer_that_is_killed_again_and_again_enqueues_each_file_exactly_once(
    engine: tuple[str, Enqueued], tmp_path: Path
) -> None:
    url, enqueued = engine
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(FILES):
        (folder / f"{number}.wav").touch()
    settings = {
        "ENGINE_URL": url,
        "PRODUCER_SCAN_DIR": str(folder),
        "PRODUCER_SETTLE": "0s",
        "PRODUCER_RATE_LIMIT_PER_SEC": "60",
        "PRODUCER_HIGH_PRIORITY_EXTS": ".none",
    }
    shell = Shell(tmp_path, clean_environment(**settings))
    for count in KILLED_AT:
        killed = shell.background("--role=producer")
        try:
            until(enqueued, count, killed)
            killed.tell(signal.SIGKILL)
            assert killed.ended() == -signal.SIGKILL
        finally:
            killed.close()
    assert len(enqueued()) < FILES, "the killed ones had nothing left to do: the test proves nothing"
    last = shell.background("--role=producer")
    try:
        until(enqueued, FILES, last)
        last.tell(signal.SIGTERM)
        assert last.ended() == 0
    finally:
        last.close()
    assert sorted(enqueued()) == sorted(str(folder / f"{number}.wav") for number in range(FILES))
