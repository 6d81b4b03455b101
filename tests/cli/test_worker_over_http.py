"""`euterpe worker` on a control plane: a server process, a worker process, and nothing between them but HTTP."""

from __future__ import annotations

import signal
import socket

import httpx
import pytest

from euterpe.model.state import State
from tests.cli.commands import Background, Shell
from tests.cli.conftest import Start
from tests.cli.states import until
from tests.cli.test_roles import GOOD_BYE, address_of
from tests.plain_http import NO_CERTIFICATES


def control_plane(shell: Shell, start: Start, **environ: str) -> tuple[Background, str]:
    """A running server, and the URL of its queue for a worker: its key is the password."""
    server = start(shell, "--role=api", **environ)
    server.until_said(GOOD_BYE)
    key = shell.json("keys", "create", "--requester", "local", "--scope", "submit,read,worker")["key"]
    return server, address_of(server).replace("http://", f"http://:{key}@")


@pytest.mark.parametrize("command", [("worker", "app:queue"), ("--role=worker", "--app", "app:queue")])
def test_a_worker_process_runs_the_jobs_of_a_control_plane(
    shell: Shell, start: Start, command: tuple[str, ...]
) -> None:
    _, url = control_plane(shell, start)
    worker = start(shell, *command, ENGINE_URL=url)
    worker.until_said("working on jobs of 2 types")
    told = shell.json("submit", "greet", '{"name": "ada"}', "--wait", "20s")
    assert (told["state"], told["result"]) == ("completed", "hello ada")
    # The server promotes what falls due: the sweeps are its own.
    delayed = shell.json("submit", "greet", '{"name": "eve"}', "--delay", "500ms")["job_id"]
    assert until(shell.environ["ENGINE_URL"], delayed, State.COMPLETED).result == b'"hello eve"'
    worker.tell(signal.SIGTERM)
    assert worker.ended() == 0
    assert "Traceback" not in "".join(worker.err)
    assert "ek_" not in "".join(worker.out + worker.err)


def test_a_worker_that_is_told_to_stop_gives_its_job_back_over_http(sqlite_shell: Shell, start: Start) -> None:
    _, url = control_plane(sqlite_shell, start)
    worker = start(sqlite_shell, "worker", "app:queue", "--grace", "0s", ENGINE_URL=url)
    job_id = sqlite_shell.json("submit", "linger")["job_id"]
    until(sqlite_shell.environ["ENGINE_URL"], job_id, State.RUNNING)
    worker.tell(signal.SIGTERM)
    assert worker.ended() == 0
    job = sqlite_shell.json("jobs", "show", job_id)
    assert (job["state"], job["attempt"]) == ("scheduled", 0)


def test_a_worker_over_http_is_ready_while_its_control_plane_is(sqlite_shell: Shell, start: Start) -> None:
    server, url = control_plane(sqlite_shell, start)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    worker = start(sqlite_shell, "worker", "app:queue", "--metrics-port", str(port), ENGINE_URL=url)
    worker.until_said('"msg":"started"')
    base = f"http://127.0.0.1:{port}"
    assert httpx.get(f"{base}/readyz", verify=NO_CERTIFICATES).status_code == 200
    sqlite_shell.json("submit", "greet", '{"name": "ada"}', "--wait", "20s")
    assert 'jobs_completed_total{queue="default"} 1.0' in httpx.get(f"{base}/metrics", verify=NO_CERTIFICATES).text
    server.tell(signal.SIGKILL)
    server.ended()
    assert httpx.get(f"{base}/readyz", verify=NO_CERTIFICATES).status_code == 503
    worker.tell(signal.SIGTERM)
    assert worker.ended() == 0


@pytest.mark.parametrize("role", ["all", "api", "outbox"])
def test_what_needs_the_database_itself_says_so_on_an_http_queue(bare_shell: Shell, role: str) -> None:
    complaint = bare_shell.refused(
        f"--role={role}", "--app", "app:queue", code=1, ENGINE_URL="http://:ek_secret@127.0.0.1:1"
    )
    assert "only --role=worker and --role=producer run on it" in complaint
    assert "ek_secret" not in complaint
