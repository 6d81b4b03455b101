"""`euterpe worker`: finding the user's queue, running it, and stopping as it was told."""

from __future__ import annotations

import json
import signal
import socket

import httpx
import pytest

from euterpe.model.state import State
from tests.cli.commands import Shell
from tests.cli.conftest import Start
from tests.cli.states import until
from tests.patience import looks
from tests.plain_http import NO_CERTIFICATES


def until_begun(shell: Shell) -> None:
    for _ in looks(lambda: "the job begins"):
        if (shell.folder / "begun").exists():
            return


def test_a_worker_runs_jobs_and_drains_when_told_to_stop(shell: Shell, start: Start) -> None:
    worker = start(shell, "worker", "app:queue", "--concurrency", "2")
    worker.until_said("working on jobs of 2 types")
    told = shell.json("submit", "greet", '{"name": "ada"}', "--wait", "20s")
    assert (told["state"], told["result"]) == ("completed", "hello ada")

    job_id = shell.json("submit", "linger")["job_id"]
    until_begun(shell)
    worker.tell(signal.SIGTERM)
    worker.until_said("stop signal")
    (shell.folder / "go").touch()
    assert worker.ended() == 0
    assert shell.json("status", job_id)["result"] == "done"
    for line in worker.err:
        assert {"ts", "level", "msg"} <= json.loads(line).keys()  # not at a terminal: one JSON object a line


def test_a_second_signal_gives_running_jobs_back_unharmed(shell: Shell, start: Start) -> None:
    worker = start(shell, "worker", "app:queue", "--grace", "5m")
    worker.until_said("working on jobs")
    job_id = shell.json("submit", "linger")["job_id"]
    until_begun(shell)
    worker.tell(signal.SIGINT)
    worker.until_said("stop signal")
    worker.tell(signal.SIGTERM)
    assert worker.ended() == 0
    job = shell.json("jobs", "show", job_id)
    assert (job["state"], job["attempt"]) == ("scheduled", 0)
    assert [attempt["outcome"] for attempt in job["attempts"]] == ["released"]


def test_only_the_named_queues_are_worked_on(sqlite_shell: Shell, start: Start) -> None:
    left = sqlite_shell.json("submit", "greet", '{"name": "a"}')["job_id"]
    taken = sqlite_shell.json("submit", "greet", '{"name": "b"}', "--queue", "slow")["job_id"]
    worker = start(sqlite_shell, "worker", "app:queue", "--queues", "slow,slower")
    until(sqlite_shell.environ["ENGINE_URL"], taken, State.COMPLETED)
    worker.tell(signal.SIGTERM)
    assert worker.ended() == 0
    assert sqlite_shell.json("status", left)["state"] == "scheduled"


def test_health_and_metrics_of_a_worker(sqlite_shell: Shell, start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "choose another port" in sqlite_shell.refused("worker", "app:queue", "--metrics-port", port, code=1)
        # A port that only the configuration names is no reason for a second worker on this machine not to start.
        second = start(sqlite_shell, "worker", "app:queue", OBSERVABILITY_METRICS_PORT=port)
        second.until_said("the metrics port is taken")
    worker = start(sqlite_shell, "worker", "app:queue", "--metrics-port", port)
    worker.until_said('"msg":"started"')
    base = f"http://127.0.0.1:{port}"
    assert httpx.get(f"{base}/healthz", verify=NO_CERTIFICATES).json() == {"status": "ok"}
    assert httpx.get(f"{base}/readyz", verify=NO_CERTIFICATES).json()["status"] == "ready"
    assert 'jobs_completed_total{queue="default"}' in httpx.get(f"{base}/metrics", verify=NO_CERTIFICATES).text
    assert httpx.get(f"{base}/secrets", verify=NO_CERTIFICATES).status_code == 404
    assert httpx.post(f"{base}/metrics", verify=NO_CERTIFICATES).status_code == 405


@pytest.mark.parametrize(
    ("place", "code", "words"),
    [
        ("app", 2, "write module:name"),
        ("nowhere:queue", 2, "there is no module 'nowhere'"),
        ("app:jobs", 2, "did you mean app:queue?"),
        ("app:not_a_queue", 2, "is a int and not a euterpe.Queue; did you mean app:queue?"),
        ("broken:queue", 1, "importing broken failed: ZeroDivisionError: division by zero (broken.py:2)"),
        ("needy:queue", 1, "No module named 'not_installed'"),
        ("idle:queue", 1, "has no job types"),
    ],
)
def test_an_app_that_cannot_be_run_is_told_clearly(sqlite_shell: Shell, place: str, code: int, words: str) -> None:
    modules = {
        "broken": "queue = None\nqueue = 1 / 0\n",
        "needy": "import not_installed\n",
        "idle": "import euterpe\nqueue = euterpe.Queue('sqlite:///idle.db')\n",
    }
    for name, source in modules.items():
        (sqlite_shell.folder / f"{name}.py").write_text(source)
    assert words in " ".join(sqlite_shell.refused("worker", place, code=code).split())


def test_a_submit_with_the_app_checks_arguments_and_takes_the_types_defaults(sqlite_shell: Shell) -> None:
    sent = sqlite_shell.json("submit", "greet", '{"name": "ada"}', "--app", "app:queue")
    assert sqlite_shell.json("status", sent["job_id"])["priority"] == "high"
    assert "name" in sqlite_shell.refused("submit", "greet", '{"nmae": "ada"}', "--app", "app:queue", code=1)


def test_waiting_ends_with_exit_1_when_the_job_did_not_complete(sqlite_shell: Shell) -> None:
    done = sqlite_shell.run("submit", "nobody.knows.this", "--wait", "100ms", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["state"] == "scheduled"


def test_a_lifespan_that_fails_ends_the_worker_with_one_sentence(sqlite_shell: Shell) -> None:
    lines = [
        "from app import queue",
        "@queue.lifespan",
        "async def pool():",
        "    raise OSError('no cache')",
        "    yield",
    ]
    (sqlite_shell.folder / "broken.py").write_text("\n".join(lines))
    said = sqlite_shell.refused("worker", "broken:queue", "--metrics-port", "0", code=1)
    assert "the lifespan pool failed at its start: OSError: no cache" in said
