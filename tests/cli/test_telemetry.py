"""What real processes of every role tell: each number on their pages is right, each line of their logs is JSON."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx
import pytest

from euterpe.model.submitting.submission import Submission
from euterpe.observe.logs import ALLOWED_KEYS
from tests.cli.commands import Background, Shell
from tests.cli.conftest import Start
from tests.cli.states import with_store
from tests.cli.test_roles import GOOD_BYE, address_of
from tests.faults.recorder import run
from tests.observe.promtool import complaints_about
from tests.observe.scraping import moved_counters, samples_of
from tests.patience import looks
from tests.plain_http import NO_CERTIFICATES
from tests.servers.process import free_port

BY_QUEUE = '{queue="default"}'


def failed(reason: str) -> str:
    return f'jobs_failed_total{{queue="default",reason="{reason}"}}'


def delivery(outcome: str) -> str:
    return f'outbox_delivery_attempts_total{{outcome="{outcome}"}}'


def page_of(base: str) -> str:
    answer = httpx.get(f"{base}/metrics", verify=NO_CERTIFICATES)
    assert answer.status_code == 200
    return answer.text


def counted(*bases: str) -> Counter[str]:
    """The counters that moved, summed over these processes; those by type, which repeat them, are left out."""
    total: Counter[str] = Counter()
    for base in bases:
        moved = moved_counters(page_of(base))
        total.update({name: int(value) for name, value in moved.items() if not name.startswith("euterpe_attempts")})
    return total


def by_type(seen: dict[str, float]) -> dict[tuple[str, str], int]:
    """(type, outcome) -> how many attempts ended so."""
    found = (
        (re.fullmatch(r'euterpe_attempts_total\{outcome="(.*)",type="(.*)"\}', name), n) for name, n in seen.items()
    )
    return {(match[2], match[1]): int(number) for match, number in found if match and number}


def until_counted(expected: dict[str, int], *bases: str) -> None:
    """Until the counters are these. A number that goes too far is told at the end, with all the others."""
    seen: dict[str, int] = {}
    for _ in looks(lambda: f"{seen} == {expected}"):
        if (seen := counted(*bases)) == expected:
            return


def until_sampled(expected: dict[str, float], base: str) -> None:
    """Until a look at the queues brought these numbers."""
    seen: dict[str, float] = {}
    for _ in looks(lambda: f"{seen} and not {expected}"):
        if (seen := samples_of(page_of(base))).items() >= expected.items():
            return


def lines_of(process: Background) -> list[dict[str, Any]]:
    """Its log; every line must be JSON and hold agreed keys alone, and none may quote a payload or a message."""
    lines = [json.loads(line) for line in process.err]
    assert lines
    for line in lines:
        assert line.keys() <= ALLOWED_KEYS
        assert line.keys() >= {"ts", "level", "msg", "logger"}
    assert "4711" not in "".join(process.err)
    return lines


def told_of(process: Background, job_id: str) -> set[tuple[str, str, str | None]]:
    """Level, state and code of every line about this job."""
    return {
        (line["level"], line["state"], line.get("error_code"))
        for line in lines_of(process)
        if line.get("job_id") == job_id
    }


def until_begun(shell: Shell, name: str = "begun") -> None:
    for _ in looks(lambda: "the job begins"):
        if (shell.folder / name).exists():
            return


class Client:
    """The HTTP API, with the key that the first start made."""

    def __init__(self, system: Background) -> None:
        self.base = address_of(system)
        (key,) = [line.strip() for line in system.out if line.strip().startswith("ek_")]
        self._http = httpx.Client(
            base_url=self.base, headers={"Authorization": f"Bearer {key}"}, verify=NO_CERTIFICATES
        )

    def submit(self, job_type: str, **said: Any) -> str:
        answer = self._http.post("/jobs", json={"type": job_type, **said})
        assert answer.status_code == 202, answer.text
        job_id: str = answer.json()["job_id"]
        return job_id

    def transcode(self, **said: Any) -> None:
        answer = self._http.post("/transcode", json=said)
        assert answer.status_code == 202, answer.text

    def do(self, job_id: str, what: str, **said: Any) -> None:
        answer = self._http.post(f"/jobs/{job_id}/{what}", json=said)
        assert answer.status_code < 300, answer.text

    def until(self, job_id: str, state: str) -> None:
        seen = ""
        for _ in looks(lambda: f"{seen}, and not {state}"):
            if (seen := self._http.get(f"/jobs/{job_id}").json()["state"]) == state:
                return


@contextmanager
def refusing() -> Iterator[str]:
    """A store whose tokens have expired, and a requester that has no new ones: 410 to every question."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<?xml version='1.0'?><Error><Code>ExpiredToken</Code><Message>expired</Message></Error>"
            self.send_response(400)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # so the server calls it

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(410)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def receiver() -> Iterator[str]:
    """A receiver of webhooks: 204 at /yes, 500 everywhere else."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(204 if self.path == "/yes" else 500)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_whole_system_counts_and_tells_every_end(telling_shell: Shell, start: Start, receiver: str) -> None:
    system = start(telling_shell, "--role=all", "--app", "telling:queue", OUTBOX_MAX_ATTEMPTS="1")
    system.until_said(GOOD_BYE)
    client = Client(system)
    client.submit("succeed")
    lost = client.submit("fail")
    dead = client.submit("stumble", max_attempts=2, backoff={"strategy": "constant", "initial": "10ms"})
    running = client.submit("linger")
    for job_id, state in ((lost, "failed"), (dead, "dead_letter"), (running, "running")):
        client.until(job_id, state)
    follower = client.submit("succeed", depends_on=[running])
    client.do(running, "cancel")
    client.until(follower, "cancelled")
    waiting = client.submit("succeed", delay="1h")
    client.do(waiting, "cancel")
    too_old = client.submit("unknown.to.this.worker", lifetime="1s")
    client.until(too_old, "dead_letter")
    client.do(lost, "dead-letter")
    client.submit("succeed", callback_url=f"{receiver}/yes", callback_events="terminal")
    client.submit("succeed", callback_url=f"{receiver}/no", callback_events="terminal")
    client.submit("succeed", callback_url=f"http://127.0.0.1:{free_port()}/", callback_events="terminal")
    client.submit("succeed", callback_url="http://10.0.0.1/", callback_events="terminal")
    until_counted(
        {
            f"jobs_produced_total{BY_QUEUE}": 11,
            f"jobs_consumed_total{BY_QUEUE}": 9,
            f"jobs_completed_total{BY_QUEUE}": 5,
            failed("permanent"): 1,
            failed("temporary"): 2,
            failed("cancelled"): 3,
            failed("timeout"): 1,
            f"jobs_retried_total{BY_QUEUE}": 1,
            f"jobs_dead_letter_total{BY_QUEUE}": 3,
            delivery("delivered"): 1,
            delivery("rejected"): 1,
            delivery("unreachable"): 1,
            delivery("blocked"): 1,
            "outbox_dead_letter_total": 3,
        },
        client.base,
    )
    seen = samples_of(page_of(client.base))
    assert seen[f"job_processing_duration_seconds_count{BY_QUEUE}"] == 9
    assert seen[f"claim_latency_seconds_count{BY_QUEUE}"] == 9
    assert by_type(seen) == {
        ("succeed", "completed"): 5,
        ("fail", "permanent"): 1,
        ("stumble", "temporary"): 2,
        ("linger", "cancelled"): 1,
    }
    until_sampled(
        {
            f"queue_length{BY_QUEUE}": 0,
            f"queue_oldest_age_seconds{BY_QUEUE}": 0,
            f"circuit_breaker_state{BY_QUEUE}": 0,
            "outbox_pending": 0,
            "outbox_retrying": 0,
            "euterpe_housekeeping_overdue_seconds": 0,
            'euterpe_housekeeping_removed_total{kind="jobs"}': 0,
            "euterpe_jobs_adopted_total": 0,
        },
        client.base,
    )

    assert told_of(system, lost) == {("error", "failed", "permanent"), ("info", "dead_letter", "error")}
    assert told_of(system, dead) == {("warning", "retrying", "temporary"), ("error", "dead_letter", "temporary")}
    assert told_of(system, running) == {("info", "cancelled", None)}
    assert told_of(system, follower) == {("info", "cancelled", "dependency_ended")}
    assert told_of(system, waiting) == {("info", "cancelled", "cancelled")}
    assert told_of(system, too_old) == {("error", "dead_letter", "lifetime_exceeded")}
    given_up = [line for line in lines_of(system) if "could not be delivered and is given up" in line["msg"]]
    assert sorted((line["error_code"], line["status"] or 0, line["host"]) for line in given_up) == [
        ("address", 0, "10.0.0.1"),
        ("connect", 0, "127.0.0.1"),
        ("refused", 500, "127.0.0.1"),
    ]


def test_the_jobs_of_a_killed_worker_are_counted_once_by_whoever_swept_them(telling_shell: Shell, start: Start) -> None:
    ports = {name: str(free_port()) for name in ("worker", "outbox")}
    api = start(telling_shell, "--role=api")
    api.until_said(GOOD_BYE)
    outbox = start(telling_shell, "--role=outbox", OBSERVABILITY_METRICS_PORT=ports["outbox"])
    worker = start(
        *(telling_shell, "--role=worker", "--app", "telling:queue"),
        OBSERVABILITY_METRICS_PORT=ports["worker"],
        WORKER_HEARTBEAT_TTL="5s",
    )
    client = Client(api)
    jobs = [client.submit("linger", payload={"name": f"begun-{n}"}, max_attempts=1) for n in range(3)]
    client.submit("succeed", depends_on=jobs[:1])
    for number in range(3):
        until_begun(telling_shell, f"begun-{number}")
    worker_page = f"http://127.0.0.1:{ports['worker']}"
    assert counted(worker_page) == {f"jobs_consumed_total{BY_QUEUE}": 3}
    lines_of(worker)
    worker.tell(signal.SIGKILL)
    until_counted(
        {
            f"jobs_produced_total{BY_QUEUE}": 4,
            failed("system"): 3,
            failed("permanent"): 1,
            f"jobs_dead_letter_total{BY_QUEUE}": 4,
            "jobs_reclaimed_total": 3,
        },
        *(client.base, f"http://127.0.0.1:{ports['outbox']}"),
    )
    for job_id in jobs:
        assert told_of(api, job_id) | told_of(outbox, job_id) == {("error", "dead_letter", "lost_lease")}


@pytest.mark.parametrize("role", ["all", "api", "worker", "outbox"])
def test_every_role_counts_and_tells_what_it_sweeps(telling_shell: Shell, start: Start, role: str) -> None:
    url = f"sqlite:///{telling_shell.folder}/swept.db"
    short_lived = Submission(type="unknown.to.this.worker", lifetime_us=1_000_000)
    job_id = with_store(url, lambda backend: backend.store.submit(short_lived)).job_id
    port = str(free_port())
    app = ("--app", "telling:queue") if role in ("all", "worker") else ()
    ports = {"API_PORT": port} if role in ("all", "api") else {"OBSERVABILITY_METRICS_PORT": port}
    process = start(telling_shell, f"--role={role}", *app, ENGINE_URL=url, **ports)
    process.until_said("a job was ended without its worker")
    base = f"http://127.0.0.1:{port}"
    until_counted({failed("timeout"): 1, f"jobs_dead_letter_total{BY_QUEUE}": 1}, base)
    assert told_of(process, job_id) == {("error", "dead_letter", "lifetime_exceeded")}


def test_a_worker_counts_and_tells_a_job_that_was_in_no_line(
    telling_shell: Shell, start: Start, fresh_postgres_url: str
) -> None:
    job = Submission(type="unknown.to.this.worker")
    job_id = with_store(fresh_postgres_url, lambda backend: backend.store.submit(job)).job_id
    run(fresh_postgres_url, "DELETE FROM euterpe_line")
    port = str(free_port())
    worker = start(
        telling_shell,
        "--role=worker",
        *("--app", "telling:queue"),
        ENGINE_URL=fresh_postgres_url,
        OBSERVABILITY_METRICS_PORT=port,
    )
    worker.until_said("a job that is ready was in no line")
    assert any("was in no line" in line and job_id in line for line in (*worker.out, *worker.err))
    until_counted({"euterpe_jobs_adopted_total": 1}, f"http://127.0.0.1:{port}")


def test_a_control_plane_counts_what_workers_over_http_report(telling_shell: Shell, start: Start) -> None:
    api = start(telling_shell, "--role=api")
    api.until_said(GOOD_BYE)
    client = Client(api)
    key = telling_shell.json("keys", "create", "--requester", "local", "--scope", "worker")["key"]
    job_id = client.submit("elsewhere", max_attempts=1)
    client.submit("elsewhere", depends_on=[job_id])
    until_sampled({f"queue_length{BY_QUEUE}": 1}, client.base)
    assert samples_of(page_of(client.base))[f"queue_oldest_age_seconds{BY_QUEUE}"] > 0
    with httpx.Client(
        base_url=f"{client.base}/internal/worker", headers={"Authorization": f"Bearer {key}"}, verify=NO_CERTIFICATES
    ) as http:
        claim = http.post("/claim", json={"worker_id": "w", "streams": ["default"]}).json()
        lease = {"worker_id": "w", **{name: claim[name] for name in ("job_id", "attempt_id", "lease_token")}}
        error = {"category": "temporary", "code": "no_paper", "message": "the secret payload is 4711"}
        assert http.post("/fail", json={**lease, "error": error}).json()["dlq"] is True
        assert http.post("/complete", json={**lease, "result": {}}).status_code == 409
    until_counted(
        {
            f"jobs_produced_total{BY_QUEUE}": 2,
            f"jobs_consumed_total{BY_QUEUE}": 1,
            failed("temporary"): 1,
            failed("permanent"): 1,
            f"jobs_dead_letter_total{BY_QUEUE}": 2,
            "stale_writes_rejected_total": 1,
        },
        client.base,
    )
    lines_of(api)


def test_a_control_plane_tells_each_failure_that_a_worker_over_http_reports_once(
    telling_shell: Shell, start: Start
) -> None:
    api = start(telling_shell, "--role=api")
    api.until_said(GOOD_BYE)
    client = Client(api)
    key = telling_shell.json("keys", "create", "--requester", "local", "--scope", "worker")["key"]
    retried, dead_lettered, broken = (client.submit("elsewhere", max_attempts=n) for n in (2, 1, 2))
    with httpx.Client(
        base_url=f"{client.base}/internal/worker", headers={"Authorization": f"Bearer {key}"}, verify=NO_CERTIFICATES
    ) as http:
        claimed = http.post("/claim", json={"worker_id": "w-9", "streams": ["default"], "max_jobs": 3}).json()["jobs"]
        leases = {
            job["job_id"]: {"worker_id": "w-9", **{name: job[name] for name in ("job_id", "attempt_id", "lease_token")}}
            for job in claimed
        }
        error = {"category": "temporary", "code": "no_paper", "message": "the secret payload is 4711", "stack": "4711"}
        first = {**leases[retried], "error": {**error, "retry_after": "90s"}}
        assert http.post("/fail", json=first).json()["requeued"] is True
        assert http.post("/fail", json=first).json()["requeued"] is True, "the same report again"
        turn = {"worker_id": "w-9", "fail": [{**leases[dead_lettered], "error": error}]}
        assert http.post("/turn", json=turn).json()["fail"][0]["dlq"] is True
        assert http.post("/fail", json={**leases[broken], "error": {**error, "category": "permanent"}}).json()["ok"]
    api.until_said("an attempt failed for good")
    (warned,), (lost,), (gone,) = (
        [line for line in lines_of(api) if line.get("job_id") == job_id] for job_id in (retried, dead_lettered, broken)
    )
    for line in (warned, lost, gone):
        assert (line["type"], line["queue"], line["worker_id"]) == ("elsewhere", "default", "w-9")
        assert (line["attempt"], line["claim_version"], line["error_code"]) == (1, 1, "no_paper")
    assert (warned["level"], warned["state"], warned["category"]) == ("warning", "retrying", "temporary")
    assert warned["delay_ms"] == 90_000
    assert (lost["level"], lost["state"], lost["category"]) == ("error", "dead_letter", "temporary")
    assert (gone["level"], gone["state"], gone["category"]) == ("error", "failed", "permanent")


def test_promtool_has_nothing_to_say_about_the_page_of_a_running_process(telling_shell: Shell, start: Start) -> None:
    system = start(telling_shell, "--role=all", "--app", "telling:queue")
    system.until_said(GOOD_BYE)
    client = Client(system)
    client.until(client.submit("succeed"), "completed")
    assert complaints_about(page_of(client.base)) == ""


def test_a_refresh_of_credentials_that_the_requester_refuses_is_counted(telling_shell: Shell, start: Start) -> None:
    with refusing() as requester:
        system = start(telling_shell, "--role=all", EGRESS_ALLOW_HOSTS=requester.removeprefix("http://"))
        system.until_said(GOOD_BYE)
        client = Client(system)
        place = {"type": "s3", "endpoint": requester, "bucket": "music"}
        keys = {"access_key_id": "a", "secret_access_key": "b", "session_token": "c"}
        client.transcode(
            source={**place, "key": "a.wav"},
            destination={**place, "prefix": "out/"},
            outputs=[{"id": "mp3", "kind": "audio", "preset": "mp3_320"}],
            credentials={"source": keys, "destination": keys},
            refresh_url=f"{requester}/refresh",
        )
        until_sampled({'credential_refresh_total{outcome="denied"}': 1.0}, client.base)
