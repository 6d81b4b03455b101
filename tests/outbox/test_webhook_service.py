"""A worker in a user's own process delivers the callbacks of its jobs: no role and no second process, only a secret."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from euterpe.backends.keychain import key_file_of, keyring_for
from euterpe.model.submitting.submission import LOCAL_REQUESTER
from euterpe.ports import Capability
from euterpe.queue.queue import Queue, core_of
from euterpe.stores.sql.accounts.secrets import WebhookSecrets
from euterpe.webhook import service
from euterpe.webhook.signing import new_secret
from euterpe.webhooks import verify
from tests.outbox.receiver import NO_CONTENT, Got, Receiver, receiving
from tests.patience import in_time
from tests.sql_stores import sql
from tests.worker.inline import work_on

SCRIPT = Path(__file__).with_name("users_script.py")
KEKS = f"k1:{base64.b64encode(bytes(range(32))).decode()}"
TYPES = ["job.running", "job.completed"]


@pytest.fixture(autouse=True)
def operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the operator of a server has set; on SQLite neither is needed, and the key file of a test is."""
    monkeypatch.setenv("EUTERPE_KEKS", KEKS)
    monkeypatch.setenv("OUTBOX_POLL_MIN", "20ms")
    monkeypatch.setenv("OUTBOX_POLL_MAX", "50ms")


def allow(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGRESS_ALLOW_HOSTS", f"127.0.0.1:{receiver.port}")


async def make_secret(queue: Queue) -> str:
    secret = new_secret()
    await WebhookSecrets(sql(core_of(queue).store).engine, keyring_for(queue.url, os.environ)).create(
        LOCAL_REQUESTER, secret
    )
    return secret


def shop(url: str) -> tuple[Queue, Any]:
    queue = Queue(url)

    @queue.job("greet")
    async def greet(name: str) -> dict[str, str]:
        return {"hello": name}

    return queue, greet


@asynccontextmanager
async def working(queue: Queue, **said: Any) -> AsyncIterator[asyncio.Event]:
    """`queue.work()` beside the test; setting the event ends it earlier."""
    stop = asyncio.Event()
    task = asyncio.get_running_loop().create_task(work_on(queue, 4, stop=stop, **said))
    try:
        yield stop
    finally:
        stop.set()
        async with asyncio.timeout(30):
            await task


async def states(queue: Queue) -> list[str]:
    return [event.state for _, event in await core_of(queue).store.outbox.search(limit=1000)]


async def until_all_are(state: str, queue: Queue, count: int) -> None:
    async with asyncio.timeout(30):
        while True:
            if await states(queue) == [state] * count:
                return
            await asyncio.sleep(0.01)


async def test_work_delivers_the_callbacks_of_its_jobs_signed_and_in_order(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, greet = shop(url)
    async with receiving() as receiver, queue:
        allow(receiver, monkeypatch)
        secret = await make_secret(queue)
        async with working(queue):
            jobs = [await queue.submit(greet.with_args(name=f"n{n}"), callback_url=receiver.url) for n in range(20)]
            await receiver.wait_for(40)
            await until_all_are("completed", queue, 40)
    assert len(receiver.got) == 40
    for job in jobs:
        mine = [got for got in receiver.got if got.document["job"]["job_id"] == job.id]
        assert [got.document["type"] for got in mine] == TYPES
        assert [verify(got.headers, got.body, secret).event_id for got in mine] == [got.event_id for got in mine]


async def test_a_users_script_in_its_own_process_delivers_and_ends_when_told(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with receiving() as receiver, Queue(url) as queue:
        allow(receiver, monkeypatch)
        secret = await make_secret(queue)
        script = await asyncio.create_subprocess_exec(sys.executable, str(SCRIPT), url, receiver.url)
        try:
            await receiver.wait_for(6)
            await until_all_are("completed", queue, 6)
            script.send_signal(signal.SIGTERM)
            async with asyncio.timeout(30):
                assert await script.wait() == 0
        finally:
            if script.returncode is None:
                script.kill()
                await script.wait()
    by_job: dict[str, list[str]] = {}
    for got in receiver.got:
        event = verify(got.headers, got.body, secret)
        by_job.setdefault(event.payload["job"]["job_id"], []).append(event.payload["type"])
    assert list(by_job.values()) == [TYPES] * 3


async def test_webhooks_false_sends_nothing_and_the_next_worker_sends_what_was_left(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "SPACING_S", 0.01)
    queue, greet = shop(url)
    async with receiving() as receiver, queue:
        allow(receiver, monkeypatch)
        await make_secret(queue)
        async with working(queue, webhooks=False):
            job = await queue.submit(greet.with_args(name="ada"), callback_url=receiver.url)
            await job.result("20s")
            quiet = await queue.submit(greet.with_args(name="bob"))
            await quiet.result("20s")
        assert receiver.got == []
        assert await states(queue) == ["scheduled", "scheduled"]
        async with working(queue):
            await receiver.wait_for(2)
    assert [got.document["type"] for got in receiver.got] == TYPES


async def test_without_events_nothing_is_imported_opened_or_claimed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who never sets a callback pays for one look at the start, and for a rare one after that."""
    monkeypatch.setattr(service, "SPACING_S", 0.05)
    queue, greet = shop(url)
    async with queue:
        outbox = core_of(queue).store.outbox
        looks: list[float] = []
        looking = outbox.has_waiting

        async def look() -> bool:
            looks.append(time.monotonic())
            return bool(await looking())

        async def refuse(*_: Any, **__: Any) -> Any:
            raise AssertionError("nothing is there to be claimed")

        monkeypatch.setattr(outbox, "has_waiting", look)
        monkeypatch.setattr(outbox, "claim", refuse)
        monkeypatch.setattr(service.WebhookService, "_means", refuse)
        started = time.monotonic()
        async with working(queue):
            for _ in range(5):
                jobs = await queue.submit_many([greet.with_args(name=str(n)) for n in range(100)])
                await jobs[-1].result("20s")
    assert 1 <= len(looks) <= 2 + (time.monotonic() - started) / 0.05


async def test_without_keys_it_warns_once_and_leaves_the_events_to_others(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    monkeypatch.chdir(tmp_path)  # no key file of this folder shall help
    monkeypatch.setattr(service, "SPACING_S", 0.01)
    monkeypatch.setattr(service, "EVENTS_CHECK_S", 0.02)
    looked = asyncio.Event()
    queue, greet = shop(url)
    async with receiving() as receiver, queue:
        allow(receiver, monkeypatch)
        secret = await make_secret(queue)
        monkeypatch.delenv("EUTERPE_KEKS")
        seen: list[int] = []
        means = service.WebhookService._means

        def look(self: service.WebhookService) -> Any:
            found = means(self)
            seen.append(1)
            if len(seen) == 3:
                looked.set()
            return found

        monkeypatch.setattr(service.WebhookService, "_means", look)
        with caplog.at_level(logging.WARNING, logger="euterpe.outbox"):
            async with working(queue):
                job = await queue.submit(greet.with_args(name="ada"), callback_url=receiver.url)
                assert await job.result("20s") == {"hello": "ada"}
                async with asyncio.timeout(30):
                    await looked.wait()
                assert await states(queue) == ["scheduled", "scheduled"]
                warnings = [record.getMessage() for record in caplog.records if record.name == "euterpe.outbox"]
                assert len(warnings) == 1
                assert "EUTERPE_KEKS is not set" in caplog.text
                assert "webhooks=False" in warnings[0]
                monkeypatch.setenv("EUTERPE_KEKS", KEKS)  # the operator brings them: no restart is needed
                await receiver.wait_for(2)
    assert [verify(got.headers, got.body, secret).payload["type"] for got in receiver.got] == TYPES
    assert not key_file_of(url).exists()


async def test_a_bad_setting_is_named_and_variables_of_other_programs_do_no_harm(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service, "SPACING_S", 0.01)
    monkeypatch.setattr(service, "EVENTS_CHECK_S", 0.02)
    monkeypatch.setenv("API_PORT", "tcp://10.0.0.1:80")  # as Kubernetes sets it for a service named api
    monkeypatch.setenv("OUTBOX_BATCH", "999")
    queue, greet = shop(sqlite_url)
    async with receiving() as receiver, queue:
        await make_secret(queue)
        with caplog.at_level(logging.WARNING, logger="euterpe.outbox"):
            async with working(queue):
                await queue.submit(greet.with_args(name="ada"), callback_url=receiver.url, callback_events="terminal")
                async with asyncio.timeout(30):
                    while not caplog.records:  # noqa: ASYNC110  # a log has no event to wait for
                        await asyncio.sleep(0.01)
                told = caplog.text
                assert "OUTBOX_BATCH" in told
                assert "API_PORT" not in told
                monkeypatch.delenv("OUTBOX_BATCH")
                await receiver.wait_for(1)


def test_a_queue_over_http_has_nothing_to_deliver() -> None:
    assert Capability.OUTBOX not in core_of(Queue("http://127.0.0.1:9", token="t")).store.capabilities


async def test_a_requester_without_a_secret_is_told_of_once_with_what_to_do(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    queue, greet = shop(url)
    async with receiving() as receiver, queue:
        allow(receiver, monkeypatch)
        with caplog.at_level(logging.WARNING, logger="euterpe.outbox"):
            async with working(queue):
                for name in ("ada", "bob"):
                    call = greet.with_args(name=name)
                    await queue.submit(call, callback_url=receiver.url, callback_events="terminal")
                await until_all_are("retrying", queue, 2)
    warnings = [record.getMessage() for record in caplog.records if "no webhook secret" in record.getMessage()]
    assert len(warnings) == 1
    assert "euterpe keys secrets rotate --requester" in warnings[0]
    assert receiver.got == []


async def test_a_worker_told_to_stop_lets_a_send_finish(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, greet = shop(url)
    stops: list[asyncio.Event] = []

    def stop_first(_got: Got) -> bytes:
        stops[0].set()
        return NO_CONTENT

    async with receiving(stop_first) as receiver, queue:
        allow(receiver, monkeypatch)
        await make_secret(queue)
        async with working(queue) as stop:
            stops.append(stop)
            await queue.submit(greet.with_args(name="ada"), callback_url=receiver.url, callback_events="terminal")
            await receiver.wait_for(1)
        assert await states(queue) == ["completed"]
    assert len(receiver.got) == 1


@pytest.mark.parametrize("way", ["grace", "at_once", "cancel"])
async def test_a_send_that_hangs_is_given_back_when_the_worker_leaves(
    url: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LAST_SENDS_S", 0.1)
    queue, greet = shop(url)
    stop, at_once = asyncio.Event(), asyncio.Event()
    async with receiving(lambda _got: None) as receiver, queue:
        allow(receiver, monkeypatch)
        await make_secret(queue)
        grace = "200ms" if way == "grace" else "30s"
        worker = asyncio.get_running_loop().create_task(work_on(queue, 4, stop=stop, at_once=at_once, grace=grace))
        await queue.submit(greet.with_args(name="ada"), callback_url=receiver.url, callback_events="terminal")
        await receiver.wait_for(1)
        started = time.monotonic()
        if way == "cancel":
            worker.cancel()
        else:
            (stop if way == "grace" else at_once).set()
        await asyncio.wait({worker}, timeout=20)
        assert worker.done()
        in_time(time.monotonic() - started, 5.0, "a hanging receiver held the worker up")
        (event,) = [event for _, event in await core_of(queue).store.outbox.search()]
        assert (event.state, event.attempt_count) == ("retrying", 0)


async def test_an_embedded_queue_needs_no_environment_at_all(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key file beside the database, and loopback open because everything is on this machine."""
    monkeypatch.delenv("EUTERPE_KEKS")
    queue, greet = shop(sqlite_url)
    async with receiving() as receiver, queue:
        secret = await make_secret(queue)
        assert key_file_of(sqlite_url).exists()
        async with working(queue):
            await queue.submit(greet.with_args(name="ada"), callback_url=receiver.url, callback_events="terminal")
            await receiver.wait_for(1)
    assert verify(receiver.got[0].headers, receiver.got[0].body, secret).payload["outputs"] == {"hello": "ada"}


async def test_a_server_queue_never_calls_inside_unless_the_operator_allows_it(fresh_postgres_url: str) -> None:
    queue, greet = shop(fresh_postgres_url)
    async with receiving() as receiver, queue:
        await make_secret(queue)
        async with working(queue):
            await queue.submit(greet.with_args(name="ada"), callback_url=receiver.url, callback_events="terminal")
            await until_all_are("dead_letter", queue, 1)
    assert receiver.got == []
