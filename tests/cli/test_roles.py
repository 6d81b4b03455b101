"""The system as `./run` starts it: what it prints, what answers, and how it ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess

import httpx

from euterpe.model.state import State
from euterpe.webhooks import verify
from tests.cli.commands import Background, Shell, lines_with
from tests.cli.conftest import Start
from tests.cli.states import until
from tests.plain_http import NO_CERTIFICATES

GOOD_BYE = "Ctrl-C stops everything"


def address_of(running: Background) -> str:
    (line,) = lines_with("  API ", running.out)
    return line.split()[-1]


def printed_command(running: Background, program: str) -> str:
    """The command of this name that was printed, with the lines it goes on over."""
    text = "".join(running.out)
    start = text.index(f"  {program} ")
    lines = []
    for line in text[start:].splitlines():
        lines.append(line)
        if not line.endswith("\\"):
            break
    return "\n".join(lines)


def pasted(command: str, shell: Shell) -> str:
    """What comes of pasting it into a shell."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=shell.folder,
        env=shell.environ,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout


def test_the_embedded_default_starts_from_nothing_and_its_curl_works_as_pasted(bare_shell: Shell, start: Start) -> None:
    system = start(bare_shell, "--role=all")
    system.until_said(GOOD_BYE)
    base = address_of(system)
    accepted = json.loads(pasted(printed_command(system, "curl"), bare_shell))
    until(f"sqlite:///{bare_shell.folder}/.euterpe/jobs.db", accepted["job_id"], State.COMPLETED)
    assert bare_shell.json("status", accepted["job_id"])["result"] == {"hello": "world"}

    assert httpx.get(f"{base}/healthz", verify=NO_CERTIFICATES).json() == {"status": "ok"}
    assert httpx.get(f"{base}/readyz", verify=NO_CERTIFICATES).json()["status"] == "ready"
    metrics = httpx.get(f"{base}/metrics", verify=NO_CERTIFICATES).text
    assert 'jobs_produced_total{queue="default"} 1.0' in metrics
    assert 'jobs_completed_total{queue="default"} 1.0' in metrics
    assert "# TYPE queue_length gauge" in metrics
    assert "/jobs" in httpx.get(f"{base}/docs", verify=NO_CERTIFICATES).text
    (look,) = [line.split()[1] for line in system.out if line.strip().startswith("Look ")]
    with httpx.Client(verify=NO_CERTIFICATES, follow_redirects=True) as browser:
        assert "Overview" in browser.get(look).text
        assert "euterpe.echo" in browser.get(f"{base}/dashboard/jobs").text
    assert "has been used" in httpx.get(look, verify=NO_CERTIFICATES).text  # it signs in once
    assert not lines_with("once=", system.err)
    assert not lines_with("ek_", system.err)  # the key is printed, and never logged
    assert not lines_with("whsec_", system.err)

    for name in ("jobs.api-key", "jobs.keks"):
        assert (bare_shell.folder / ".euterpe" / name).stat().st_mode & 0o077 == 0
    system.tell(signal.SIGTERM)
    assert system.ended() == 0


def test_a_later_start_shows_no_key_and_its_curl_still_works(bare_shell: Shell, start: Start) -> None:
    first = start(bare_shell, "--role=api")
    first.until_said(GOOD_BYE)
    first.tell(signal.SIGINT)
    assert first.ended() == 0
    (key,) = [line.strip() for line in first.out if line.strip().startswith("ek_")]

    second = start(bare_shell, "--role=api")
    second.until_said(GOOD_BYE)
    assert key not in "".join(second.out)
    accepted = json.loads(pasted(printed_command(second, "curl"), bare_shell))
    assert bare_shell.json("status", accepted["job_id"])["state"] == "scheduled"  # the API alone runs nothing

    bare_shell.ok("keys", "revoke", key, "--yes")
    second.tell(signal.SIGTERM)
    assert second.ended() == 0
    third = start(bare_shell, "--role=api")
    third.until_said(GOOD_BYE)
    assert "keys create" in "".join(third.out)
    assert "once=" not in "".join(third.out)  # a key that is over signs nobody in


def test_the_whole_system_on_postgres_with_an_app_and_a_key_of_the_operators(
    fresh_postgres_url: str, bare_shell: Shell, start: Start
) -> None:
    shell = Shell(bare_shell.folder, bare_shell.environ | {"ENGINE_URL": fresh_postgres_url})
    system = start(shell, "--role=all", "--app", "app:queue")
    system.until_said(GOOD_BYE)
    assert not lines_with("ek_", system.out)
    assert '"type": "greet"' in printed_command(system, "curl")  # a job type that this system can run
    password = fresh_postgres_url.split("@")[0].rpartition(":")[2]
    assert password not in "".join(system.out + system.err)
    key = shell.json("keys", "create", "--requester", "vesta", "--scope", "submit,read")["key"]
    answer = httpx.post(
        f"{address_of(system)}/jobs",
        json={"type": "greet", "payload": {"name": "bob"}},
        headers={"Authorization": f"Bearer {key}"},
        verify=NO_CERTIFICATES,
    )
    assert answer.status_code == 202
    job_id = answer.json()["job_id"]
    assert until(fresh_postgres_url, job_id, State.COMPLETED).result == b'"hello bob"'
    system.tell(signal.SIGTERM)
    assert system.ended() == 0


def test_the_configured_rate_limit_holds_for_each_key(bare_shell: Shell, start: Start) -> None:
    shell = Shell(bare_shell.folder, bare_shell.environ | {"API_RATE_LIMIT": "1", "API_RATE_BURST": "3"})
    system = start(shell, "--role=api")
    system.until_said(GOOD_BYE)
    key, other = (
        shell.json("keys", "create", "--requester", name, "--scope", "read")["key"] for name in ("vesta", "ceres")
    )
    with httpx.Client(base_url=address_of(system), verify=NO_CERTIFICATES) as client:
        answers = [client.get("/jobs", headers={"Authorization": f"Bearer {key}"}) for _ in range(20)]
        assert [answer.status_code for answer in answers[:3]] == [200, 200, 200]
        assert 429 in {answer.status_code for answer in answers}
        assert client.get("/jobs", headers={"Authorization": f"Bearer {other}"}).status_code == 200


def test_a_subsystem_that_cannot_start_is_exit_1(bare_shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        complaint = bare_shell.refused("--role=api", code=1, API_PORT=port)
    assert f"the API cannot listen on 127.0.0.1:{port}" in complaint
    nowhere = "postgresql://nobody:hidden@127.0.0.1:1/none"
    complaint = bare_shell.refused("--role=all", code=1, ENGINE_URL=nowhere, ENGINE_START_TIMEOUT="0s")
    assert "Postgres does not answer" in complaint
    assert "hidden" not in complaint


def test_a_bad_configuration_names_every_bad_key_and_is_exit_2(bare_shell: Shell) -> None:
    (bare_shell.folder / "bad.yaml").write_text("worker:\n  count: 0\n  cuont: 3\n")
    complaint = bare_shell.refused("--role=all", "--config=bad.yaml", code=2, OUTBOX_BATCH="30")
    assert "worker.count (bad.yaml:2)" in complaint
    assert "did you mean worker.count?" in complaint
    assert "outbox.batch ($OUTBOX_BATCH)" in complaint
    assert bare_shell.refused("--config=bad.yaml", "stats", code=2) == bare_shell.refused(
        "stats", "--config=bad.yaml", code=2
    )
    bare_shell.ok("--config=missing.yaml", "migrate")


def test_what_is_not_there_is_said_and_never_pretended(bare_shell: Shell) -> None:
    assert "needs a folder" in bare_shell.refused("--role=producer", code=2)
    assert "--app myapp:queue" in bare_shell.refused("--role=worker", code=2, TRANSCODE_ENABLED="false")
    assert "they take no command" in bare_shell.refused("--role=all", "stats", code=2)
    assert "there is no database at .euterpe/jobs.db yet" in bare_shell.refused("stats", code=1)
    assert not (bare_shell.folder / ".euterpe").exists()
    assert "engine.url (--engine): 'mysql://h'" in bare_shell.refused("stats", "--engine", "mysql://h", code=2)


def test_a_requester_of_the_embedded_default_gets_webhooks_on_this_machine(bare_shell: Shell, start: Start) -> None:
    system = start(bare_shell, "--role=all")
    system.until_said(GOOD_BYE)
    (secret,) = [line.strip() for line in system.out if line.strip().startswith("whsec_")]
    with socket.create_server(("127.0.0.1", 0)) as receiver:
        url = f"http://127.0.0.1:{receiver.getsockname()[1]}/hook"
        bare_shell.ok("submit", "euterpe.echo", "{}", "--callback-url", url)
        connection, _ = receiver.accept()
        with connection:
            request = connection.recv(65536)
            connection.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
    head, _, body = request.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().splitlines()[1:])
    assert verify(headers, body, secret).payload["type"] == "job.running"


def test_the_outbox_role_delivers_and_runs_no_job(bare_shell: Shell, start: Start) -> None:
    bare_shell.ok("submit", "nobody.knows", "{}")
    system = start(bare_shell, "--role=outbox")
    system.until_said("started")
    assert bare_shell.json("stats")["by_state"] == {"scheduled": 1}
    system.tell(signal.SIGTERM)
    assert system.ended() == 0


def test_spans_of_jobs_reach_the_collector_that_the_configuration_names(bare_shell: Shell, start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as collector:
        endpoint = f"http://127.0.0.1:{collector.getsockname()[1]}"
        tracing = {"OBSERVABILITY_TRACING_ENABLED": "true", "OBSERVABILITY_TRACING_ENDPOINT": endpoint}
        system = start(bare_shell, "--role=all", **tracing)
        system.until_said(GOOD_BYE)
        job_id = bare_shell.json("submit", "euterpe.echo", "{}", "--wait", "20s")["job_id"]
        system.tell(signal.SIGTERM)
        connection, _ = collector.accept()
        with connection:
            seen = b""
            while b"euterpe.echo" not in seen:
                seen += connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
    assert seen.startswith(b"POST /v1/traces ")
    assert job_id.encode() in seen
    assert system.ended() == 0
