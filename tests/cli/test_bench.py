"""`euterpe bench`: it measures on the named engine, beside the user's tables, and leaves nothing behind."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import psycopg
import pytest

from euterpe.cli.bench.disk_probe import CommitSpeed, probe_disk
from euterpe.cli.bench.measures import percentile
from euterpe.cli.bench.sandbox import PREFIX, Sandbox, open_sandbox
from euterpe.config import redact_url
from euterpe.model.errors import InvalidInput
from euterpe.stores.sql.postgres.engine import PostgresEngine
from tests.cli.commands import Shell
from tests.cli.conftest import Start

FIGURES = [
    "ground", "submit_one", "submit_64", "submit_bulk", "drain", "latency_p50_ms", "latency_p99_ms",
]  # fmt: skip
FEW = ("bench", "--jobs", "200", "--concurrency", "50", "--batch", "100")


@pytest.fixture
def temporary(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the system keeps temporary files; empty before and after."""
    place = folder / "tmp"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    yield place
    assert list(place.iterdir()) == []


def place_of(said: Iterable[str]) -> str:
    """The schema's or the folder's name, out of what the command says on standard error."""
    (found,) = re.findall(r"measuring in the (?:schema|folder) (\S+),", "".join(said))
    return str(found)


def exists(url: str, place: str) -> bool:
    """By its name: the server is shared, and others may measure on it at the same time."""
    if url.startswith("sqlite"):
        return Path(place).exists()
    with psycopg.connect(url.partition("?")[0]) as connection:
        row = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [place]).fetchone()
        return row is not None


def test_every_figure_is_measured_on_the_named_engine_and_nothing_stays(shell: Shell) -> None:
    url = shell.environ["ENGINE_URL"]

    done = shell.run(*FEW, "--json")

    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert list(document["figures"]) == FIGURES
    assert all(figure["value"] > 0 for figure in document["figures"].values())
    assert document["settings"] == {"jobs": 200, "concurrency": 50, "batch": 100}
    assert document["engine"] == redact_url(url)
    assert not exists(url, place_of(done.stderr))


def test_the_users_own_tables_are_not_touched(shell: Shell) -> None:
    job_id = shell.json("submit", "report.make", "{}")["job_id"]

    shell.ok(*FEW)

    assert [job["job_id"] for job in shell.json("jobs", "list")["jobs"]] == [job_id]


def test_without_an_engine_a_temporary_file_is_measured(bare_shell: Shell, temporary: Path) -> None:
    done = bare_shell.run(*FEW, TMPDIR=str(temporary))

    assert done.returncode == 0, done.stderr
    assert f"measuring in the folder {temporary}/{PREFIX}" in done.stderr
    lines = done.stdout.splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "disk: fdatasync of 4 KB appends",
        "submit one by one",
        "submit, 64 at once",
        "submit in bulk, 100 a call",
        "drain, this one process",
        "latency p50",
        "latency p99",
    ]
    assert "jobs in" in lines[1]
    assert not (bare_shell.folder / ".euterpe").exists(), "the embedded database is not made for a measurement"


@pytest.mark.parametrize(
    ("number", "jobs", "words"),
    [
        (signal.SIGINT, "10000000", " /s"),  # the first submits follow, for seconds
        (signal.SIGTERM, "1000", "drain, this one process"),  # an idle worker follows, for seconds
    ],
    ids=["submitting", "working"],
)
def test_a_signal_ends_it_and_nothing_stays(
    shell: Shell, start: Start, number: signal.Signals, jobs: str, words: str
) -> None:
    url = shell.environ["ENGINE_URL"]
    running = start(shell, "bench", "--jobs", jobs)
    running.until_said(words)
    place = place_of(running.err)
    assert exists(url, place)

    running.tell(number)

    assert running.ended() == 130
    assert not exists(url, place)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:1", "is a control plane; name the database behind it"),
        ("libsql://db.example.org", "is nothing to measure on"),
        ("sqlite:///nowhere/at/all.db", "there is no folder nowhere/at"),
        ("postgresql://nobody@127.0.0.1:1/x", "Postgres does not answer"),
    ],
)
def test_an_engine_that_cannot_be_measured_is_refused_in_one_line(bare_shell: Shell, url: str, words: str) -> None:
    said = bare_shell.refused("bench", "--engine", url, code=1)

    assert words in said
    assert len(said.splitlines()) == 1


async def test_a_place_is_removed_when_the_measurement_fails(engine_url: str) -> None:
    seen: list[str] = []

    async def fail() -> None:
        async with open_sandbox(engine_url) as place:
            seen.append(place.name.split()[-1])
            assert exists(engine_url, seen[0])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert not exists(engine_url, seen[0])


async def test_ground_that_keeps_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("euterpe.cli.bench.disk_probe.FREE_PER_S", 0)
    free = await probe_disk(Sandbox("sqlite:///x", "x", tmp_path), 0.01)
    monkeypatch.setattr("euterpe.cli.bench.disk_probe.FREE_PER_S", float("inf"))
    honest: CommitSpeed = await probe_disk(Sandbox("sqlite:///x", "x", tmp_path), 0.01)

    assert "makes nothing durable" in free.remarks[0]
    assert honest.remarks == ()


async def test_our_sessions_wait_for_the_disk_whatever_the_url_says(fresh_postgres_url: str) -> None:
    url = f"{fresh_postgres_url}&options=-c%20synchronous_commit%3Doff"
    connection = await PostgresEngine(url).connect()
    try:
        assert await connection.fetchval("SHOW synchronous_commit") == "on"
    finally:
        await connection.close()


async def test_a_control_plane_is_refused_before_anything_is_made() -> None:
    with pytest.raises(InvalidInput, match="control plane"):
        async with open_sandbox("https://queue.example.org"):
            raise AssertionError("entered")


def test_a_percentile_is_a_value_that_was_seen() -> None:
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0
    assert percentile([float(number) for number in range(1, 201)], 99) == 198.0
