"""What a job type declares holds for submissions over HTTP too, where the server process was given the app."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from euterpe.model.job import JobRow
from tests.cli.commands import Shell
from tests.cli.conftest import Start
from tests.cli.states import with_store
from tests.cli.test_roles import GOOD_BYE, address_of
from tests.plain_http import NO_CERTIFICATES

MINUTE_US = 60_000_000
Json = dict[str, Any]
PLAIN: Json = {"type": "report.render", "payload": {"report_id": 7}}
DECLARED: Json = {
    "queue": "reports",
    "priority": 1,
    "max_attempts": 7,
    "timeout": 10 * MINUTE_US,
    "visibility": 2 * MINUTE_US,
    "lifetime": 3 * 24 * 60 * MINUTE_US,
    "backoff": ("constant", False),
    "stages": ("claimed", "drawn"),
    "limit": ("type:report.render", 4),
    "tags": {"team": "press"},
    "correlation_id": "declared",
    "callback": ("https://receiver.example/jobs", "terminal"),
}


@pytest.fixture
def client_of(sqlite_shell: Shell, folder: Path, start: Start) -> Any:
    """A client for a server process that was started with these arguments."""
    shutil.copy(Path(__file__).with_name("declaring_app.py"), folder / "shop.py")

    def begin(*arguments: str) -> httpx.Client:
        server = start(sqlite_shell, *arguments)
        server.until_said(GOOD_BYE)
        key = sqlite_shell.json("keys", "create", "--requester", "vesta", "--scope", "submit,read,worker")["key"]
        return httpx.Client(
            base_url=address_of(server),
            headers={"authorization": f"Bearer {key}"},
            timeout=20,
            trust_env=False,
            verify=NO_CERTIFICATES,
        )

    return begin


@pytest.fixture
def client(client_of: Any) -> httpx.Client:
    client: httpx.Client = client_of("--role=api", "--app", "shop:queue")
    return client


def stored(shell: Shell, job_id: str) -> Json:
    job: JobRow = with_store(shell.environ["ENGINE_URL"], lambda backend: backend.store.get(job_id))
    return {
        "queue": job.queue,
        "priority": job.priority,
        "max_attempts": job.max_attempts,
        "timeout": job.execution_timeout_us,
        "visibility": job.visibility_us,
        "lifetime": job.expires_at - job.created_at,
        "backoff": (str(job.retry.backoff.strategy), job.retry.on_timeout),
        "stages": job.stages,
        "limit": (job.concurrency_key, job.concurrency_limit),
        "tags": job.tags,
        "correlation_id": job.correlation_id,
        "callback": (job.callback_url, job.callback_events),
    }


def accepted(answer: httpx.Response) -> Json:
    assert answer.status_code == 202, answer.text
    told: Json = answer.json()
    return told


def test_what_a_type_declares_applies_to_jobs_batches_and_children(sqlite_shell: Shell, client: httpx.Client) -> None:
    alone = accepted(client.post("/jobs", json=PLAIN))["job_id"]
    assert stored(sqlite_shell, alone) == DECLARED
    batch = accepted(client.post("/jobs/batch", json={"jobs": [PLAIN, {"type": "unknown"}]}))["jobs"]
    assert stored(sqlite_shell, batch[0]["job_id"]) == DECLARED
    assert stored(sqlite_shell, batch[1]["job_id"])["queue"] == "default"
    claim = client.post("/internal/worker/claim", json={"worker_id": "w", "streams": ["reports"]}).json()
    lease = {name: claim[name] for name in ("job_id", "attempt_id", "lease_token")} | {"worker_id": "w"}
    spawned = client.post("/internal/worker/spawn", json=lease | {"jobs": [PLAIN]}).json()
    assert stored(sqlite_shell, spawned["jobs"][0]["job_id"]) == DECLARED


def test_what_the_request_says_wins_also_when_it_says_the_default(sqlite_shell: Shell, client: httpx.Client) -> None:
    said: Json = {
        "queue": "default",
        "priority": "normal",
        "max_attempts": 3,
        "timeout": "30m",
        "visibility": "5m",
        "lifetime": "7d",
        "backoff": {"on_timeout": True},
        "stages": ["claimed"],
        "concurrency_limit": 9,
        "tags": {},
        "correlation_id": "said",
        "callback_url": "https://other.example/",
        "callback_events": "all",
    }
    assert stored(sqlite_shell, accepted(client.post("/jobs", json=PLAIN | said))["job_id"]) == {
        "queue": "default",
        "priority": 2,
        "max_attempts": 3,
        "timeout": 30 * MINUTE_US,
        "visibility": 5 * MINUTE_US,
        "lifetime": 7 * 24 * 60 * MINUTE_US,
        "backoff": ("exponential", True),
        "stages": ("claimed",),
        "limit": ("type:report.render", 9),
        "tags": {},
        "correlation_id": "said",
        "callback": ("https://other.example/", "all"),
    }


def test_arguments_that_the_type_does_not_take_are_refused_with_a_pointer(client: httpx.Client) -> None:
    for payload, pointer in (
        ({"report_id": "seven"}, "/payload/report_id"),
        ({}, "/payload/report_id"),
        ({"report_id": 7, "colour": "red"}, "/payload/colour"),
        ([7], "/payload"),
    ):
        answer = client.post("/jobs", json={"type": "report.render", "payload": payload})
        assert (answer.status_code, answer.json()["pointer"]) == (422, pointer), payload
    bad = {"type": "report.render", "payload": {"base64": "aGk="}, "payload_format": "bytes"}
    answer = client.post("/jobs/batch", json={"jobs": [PLAIN, bad]})
    assert (answer.status_code, answer.json()["pointer"]) == (422, "/jobs/1/payload")
    assert client.get("/jobs").json()["jobs"] == []


def test_a_repeated_request_is_the_same_whether_it_spells_out_what_is_declared(client: httpx.Client) -> None:
    first = client.post("/jobs", json=PLAIN, headers={"idempotency-key": "k"})
    for same in (PLAIN, PLAIN | {"priority": "high", "max_attempts": 7}):
        again = client.post("/jobs", json=same, headers={"idempotency-key": "k"})
        assert (again.content, again.headers["idempotency-replayed"]) == (first.content, "true")
    other = client.post("/jobs", json=PLAIN | {"priority": "normal"}, headers={"idempotency-key": "k"})
    assert other.status_code == 409


def test_a_server_without_the_app_knows_nothing_of_its_types(sqlite_shell: Shell, client_of: Any) -> None:
    client = client_of("--role=api")
    job_id = accepted(client.post("/jobs", json={"type": "report.render", "payload": [7]}))["job_id"]
    assert stored(sqlite_shell, job_id) == {
        "queue": "default",
        "priority": 2,
        "max_attempts": 3,
        "timeout": 30 * MINUTE_US,
        "visibility": 5 * MINUTE_US,
        "lifetime": 7 * 24 * 60 * MINUTE_US,
        "backoff": ("exponential", True),
        "stages": ("claimed",),
        "limit": (None, None),
        "tags": {},
        "correlation_id": None,
        "callback": (None, "all"),
    }
    fields = client.get("/openapi.json").json()["components"]["schemas"]["SubmissionBody"]["properties"]
    shown = ("queue", "priority", "max_attempts", "timeout", "visibility", "lifetime", "dependency", "callback_events")
    assert [fields[name]["default"] for name in shown] == [
        *("default", "normal", 3, "30m", "5m", "7d", "after", "all"),
    ]
