"""A running job's credentials: refreshed once for all who need it, before they run out, and never without end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from euterpe.crypto import Keyring
from euterpe.egress.client import Egress
from euterpe.egress.target import EgressPolicy
from euterpe.model.errors import StaleLease
from euterpe.model.failures.failure import Category
from euterpe.stores.sql.store import SqlStore
from euterpe.transcode.credentials.provider import CredentialProvider, RefreshPolicy, UnreadableCredentials
from euterpe.transcode.credentials.refresh import RefreshCalls, refresh_id_of
from euterpe.transcode.credentials.repository import CredentialStore
from euterpe.transcode.credentials.update import Updated, update_credentials
from euterpe.transcode.schema.locations import CredentialSet
from euterpe.transcode.storage.errors import Stage, StorageError
from euterpe.transcode.storage.ports import UploadAttempt
from tests.conformance.acts import release, take_one
from tests.conformance.engines import Opened
from tests.transcode.credentials.conftest import keyring
from tests.transcode.credentials.requester import Requester, requester
from tests.transcode.credentials.samples import (
    CANARY,
    REQUESTER,
    URL_PLACES,
    running_job,
    secrets,
    update_body,
    url_secrets,
)

NOW = 1_800_000_000
QUICK = RefreshPolicy(poll_s=1, retry_s=0.01, answer_s=60, ceiling=5)


NOT_HEARD = StorageError("credentials.refresh_failed", Category.TEMPORARY, Stage.FETCHING, "no")


class Clock:
    """Its sleeps pass at once and move it."""

    def __init__(self) -> None:
        self.now = float(NOW)

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


@pytest.fixture
def clock_s() -> Clock:
    return Clock()


@pytest.fixture
async def receiver() -> AsyncIterator[Requester]:
    async with requester() as made:
        yield made


@pytest.fixture
async def egress() -> AsyncIterator[Egress]:
    async with Egress(EgressPolicy(allow_loopback=True)) as made:
        yield made


class Refreshing:
    """A provider for a job, and a requester that PUTs."""

    def __init__(self, credentials: CredentialStore, receiver: Requester, egress: Egress, clock: Clock) -> None:
        self.credentials = credentials
        self.receiver = receiver
        self.clock = clock
        self.outcomes: list[str] = []
        self.calls = RefreshCalls(
            egress, receiver.secrets_of, lambda job_id: f"https://api/transcode/{job_id}/credentials"
        )

    def provider(
        self, attempt: UploadAttempt, policy: RefreshPolicy = QUICK, credentials: CredentialStore | None = None
    ) -> CredentialProvider:
        return CredentialProvider(
            attempt,
            credentials or self.credentials,
            self.calls,
            policy,
            count=self.outcomes.append,
            clock=self.clock,
            sleep=self.clock.sleep,
        )

    async def put(self, job_id: str, version: int, body: dict[str, Any] | None = None) -> Updated:
        said = body or update_body(version + 1)
        policy = EgressPolicy()
        return await update_credentials(self.credentials, job_id, REQUESTER, f'"{version}"', said, policy, self.clock())

    async def put_at_once(self, document: dict[str, Any]) -> None:
        version = document["credential_version"]
        await self.put(document["job_id"], version, update_body(version + 1, refresh_id=document["refresh_id"]))


@pytest.fixture
def flow(credentials: CredentialStore, receiver: Requester, egress: Egress, clock_s: Clock) -> Refreshing:
    made = Refreshing(credentials, receiver, egress, clock_s)
    receiver.on_call = made.put_at_once
    return made


async def test_a_refusal_leads_to_a_signed_call_and_the_next_version(flow: Refreshing, jobs: SqlStore) -> None:
    claim, attempt = await running_job(jobs, flow.credentials, refresh_url=flow.receiver.url)
    provider = flow.provider(attempt)
    first = await provider.keys("destination")
    await provider.renew("destination", first.version, "denied")
    second = await provider.keys("destination")
    assert (first.version, second.version, second.keys.access_key_id) == (1, 2, "AK2")
    (call,) = flow.receiver.calls
    expected = {
        "type": "transcode.credentials_needed",
        "job_id": claim.job.id,
        "refresh_id": refresh_id_of(claim.job.id, 1),
        "event_id": refresh_id_of(claim.job.id, 1),
        "reason": "denied",
        "credential_version": 1,
        "needed": {"source": False, "destination": True},
        "min_ttl_seconds": 900,
        "update_url": f"https://api/transcode/{claim.job.id}/credentials",
    }
    assert expected.items() <= call.items()
    assert call["scope"]["destination"]["prefix"] == "out/"
    assert CANARY.encode() not in flow.receiver.raw[0]
    stored = await flow.credentials.get(claim.job.id)
    assert stored is not None
    assert stored.refresh_attempts == 1
    await provider.renew("destination", 1, "denied")
    assert len(flow.receiver.calls) == 1
    await provider.close()


async def test_many_parts_that_are_refused_at_once_make_one_call(flow: Refreshing, jobs: SqlStore) -> None:
    _, attempt = await running_job(jobs, flow.credentials, refresh_url=flow.receiver.url)
    provider = flow.provider(attempt)
    await asyncio.gather(*(provider.renew("destination", 1, "expired") for _ in range(20)))
    assert len(flow.receiver.calls) == 1
    assert flow.outcomes == ["refreshed"]
    assert (await provider.keys("source")).version == 2
    await provider.close()


async def test_one_that_is_cancelled_does_not_take_the_refresh_from_the_others(
    flow: Refreshing, jobs: SqlStore
) -> None:
    _, attempt = await running_job(jobs, flow.credentials, refresh_url=flow.receiver.url)
    provider = flow.provider(attempt)
    called, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(document: dict[str, Any]) -> None:
        called.set()
        await go_on.wait()
        await flow.put_at_once(document)

    flow.receiver.on_call = slowly
    first = asyncio.create_task(provider.renew("destination", 1, "expired"))
    second = asyncio.create_task(provider.renew("destination", 1, "expired"))
    await called.wait()
    first.cancel()
    go_on.set()
    await second
    assert first.cancelled()
    assert len(flow.receiver.calls) == 1
    await provider.close()


async def test_credentials_in_the_answer_are_ignored(flow: Refreshing, jobs: SqlStore) -> None:
    claim, attempt = await running_job(jobs, flow.credentials, refresh_url=flow.receiver.url)
    flow.receiver.on_call = None
    flow.receiver.reply = {"credential_version": 2, **update_body(2)}
    provider = flow.provider(attempt)
    with pytest.raises(StorageError) as caught:
        await provider.renew("source", 1, "expired")
    assert (caught.value.code, caught.value.category) == ("credentials.refresh_timeout", Category.TEMPORARY)
    assert (await provider.keys("source")).version == 1
    assert await flow.credentials.version(claim.job.id) == 1
    assert len(flow.receiver.calls) == 1
    await provider.close()


async def test_a_version_that_advanced_by_itself_needs_no_call(flow: Refreshing, jobs: SqlStore) -> None:
    claim, attempt = await running_job(jobs, flow.credentials, refresh_url=flow.receiver.url)
    provider = flow.provider(attempt)
    await provider.keys("source")
    await flow.put(claim.job.id, 1)
    await provider.renew("source", 1, "expired")
    assert (await provider.keys("source")).version == 2
    assert flow.receiver.calls == []
    await provider.close()


@pytest.mark.parametrize(("status", "code"), [(404, "credentials.refresh_gone"), (410, "credentials.refresh_gone")])
async def test_a_refresh_url_that_is_gone_is_permanent(
    flow: Refreshing, jobs: SqlStore, status: int, code: str
) -> None:
    _, attempt = await running_job(jobs, flow.credentials, refresh_url=flow.receiver.url)
    flow.receiver.answers = [status]
    provider = flow.provider(attempt)
    with pytest.raises(StorageError) as caught:
        await provider.renew("source", 1, "expired")
    assert (caught.value.code, caught.value.category, caught.value.http_status) == (code, Category.PERMANENT, status)
    assert len(flow.receiver.calls) == 1
    assert flow.outcomes == ["denied"]
    await provider.close()


async def test_a_refresh_url_that_the_egress_policy_closes_is_permanent(flow: Refreshing, jobs: SqlStore) -> None:
    _, attempt = await running_job(jobs, flow.credentials, refresh_url="http://169.254.169.254/x")
    provider = flow.provider(attempt)
    with pytest.raises(StorageError) as caught:
        await provider.renew("source", 1, "expired")
    assert (caught.value.code, caught.value.category) == ("credentials.refresh_refused", Category.PERMANENT)
    await provider.close()


async def test_without_a_refresh_url_nobody_is_called(flow: Refreshing, jobs: SqlStore) -> None:
    _, attempt = await running_job(jobs, flow.credentials, refresh_url=None)
    provider = flow.provider(attempt)
    with pytest.raises(StorageError) as caught:
        await provider.renew("source", 1, "expired")
    assert (caught.value.code, caught.value.category) == ("credentials.no_refresh_url", Category.TEMPORARY)
    await provider.close()


async def test_a_requester_in_trouble_is_called_again_with_the_same_refresh_id(
    flow: Refreshing, jobs: SqlStore
) -> None:
    _, attempt = await running_job(jobs, flow.credentials, refresh_url=flow.receiver.url)
    flow.receiver.answers = [500, 302, 202]
    provider = flow.provider(attempt)
    await provider.renew("source", 1, "expired")
    assert [call["refresh_id"] for call in flow.receiver.calls] == [refresh_id_of(attempt.job_id, 1)] * 3
    assert len({call["event_id"] for call in flow.receiver.calls}) == 1
    await provider.close()


async def test_the_calls_of_a_job_have_a_ceiling_over_all_its_attempts(flow: Refreshing, jobs: SqlStore) -> None:
    claim, attempt = await running_job(jobs, flow.credentials, refresh_url=flow.receiver.url)
    flow.receiver.answers = [500]
    provider = flow.provider(attempt)
    with pytest.raises(StorageError) as caught:
        await provider.renew("source", 1, "expired")
    assert (caught.value.code, caught.value.category) == ("credentials.refresh_exhausted", Category.TEMPORARY)
    assert len(flow.receiver.calls) == QUICK.ceiling
    assert flow.outcomes == ["failed"]
    await provider.close()
    await release(jobs, claim)
    again = await take_one(jobs)
    provider = flow.provider(UploadAttempt(again.job.id, again.job.claim_version))
    with pytest.raises(StorageError) as caught:
        await provider.renew("source", 1, "expired")
    assert caught.value.code == "credentials.refresh_exhausted"
    assert len(flow.receiver.calls) == QUICK.ceiling
    await provider.close()


async def test_a_refresh_url_that_hangs_is_left_and_called_again(
    flow: Refreshing, jobs: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("euterpe.transcode.credentials.refresh._CALL_S", 0.2)
    _, attempt = await running_job(jobs, flow.credentials, refresh_url=flow.receiver.url)

    async def hang_once(document: dict[str, Any]) -> None:
        if len(flow.receiver.calls) == 1:
            await asyncio.Event().wait()
        await flow.put_at_once(document)

    flow.receiver.on_call = hang_once
    provider = flow.provider(attempt)
    await provider.renew("source", 1, "expired")
    assert len(flow.receiver.calls) == 2
    await provider.close()


async def test_a_requester_in_trouble_is_left_alone_for_longer_each_time(flow: Refreshing, jobs: SqlStore) -> None:
    _, attempt = await running_job(jobs, flow.credentials, refresh_url=flow.receiver.url)
    flow.receiver.answers = [500, 500, 503, 202]
    flow.receiver.headers = {"retry-after": "11"}
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    provider = flow.provider(attempt, RefreshPolicy())
    provider._sleep = sleep
    await provider.renew("source", 1, "expired")
    assert waits == [11, 11, 11, 0.5]
    assert [RefreshPolicy().wait_s(n, NOT_HEARD) for n in (0, 1, 2, 9)] == [2, 4, 8, 30]
    await provider.close()


async def test_a_stale_worker_calls_nobody(flow: Refreshing, jobs: SqlStore) -> None:
    claim, attempt = await running_job(jobs, flow.credentials, refresh_url=flow.receiver.url)
    await release(jobs, claim)
    provider = flow.provider(attempt)
    with pytest.raises(StaleLease):
        await provider.renew("source", 1, "expired")
    assert flow.receiver.calls == []
    await provider.close()


async def test_fresh_credentials_are_asked_for_before_the_old_ones_run_out(flow: Refreshing, jobs: SqlStore) -> None:
    soon = secrets(expires_at=NOW + 100)
    _, attempt = await running_job(jobs, flow.credentials, soon, refresh_url=flow.receiver.url)
    provider = flow.provider(attempt)
    asked = asyncio.Event()

    async def put(document: dict[str, Any]) -> None:
        await flow.put_at_once(document)
        asked.set()

    flow.receiver.on_call = put
    assert (await provider.keys("destination")).version == 1
    await asked.wait()
    assert flow.receiver.calls[0]["reason"] == "expiring"
    for _ in range(500):
        if (await provider.keys("destination")).version == 2:
            break
        await asyncio.sleep(0.01)
    assert (await provider.keys("destination")).version == 2
    assert len(flow.receiver.calls) == 1
    await provider.close()


@pytest.mark.parametrize(("left_s", "reason"), [(10, "expiring"), (-5, "expired")])
async def test_what_is_nearly_over_is_waited_for(flow: Refreshing, jobs: SqlStore, left_s: int, reason: str) -> None:
    _, attempt = await running_job(jobs, flow.credentials, secrets(expires_at=NOW + left_s), flow.receiver.url)
    provider = flow.provider(attempt)
    assert (await provider.keys("destination")).version == 2
    assert [call["reason"] for call in flow.receiver.calls] == [reason]
    await provider.close()


async def test_a_refresh_ahead_of_time_that_fails_does_not_end_what_still_works(
    flow: Refreshing, jobs: SqlStore
) -> None:
    _, attempt = await running_job(jobs, flow.credentials, secrets(expires_at=NOW + 100), flow.receiver.url)
    flow.receiver.answers = [410]
    provider = flow.provider(attempt)
    for _ in range(20):
        assert (await provider.keys("destination")).version == 1
        await asyncio.sleep(0)
    await provider.close()


async def test_credentials_that_were_purged_are_asked_for_anew(flow: Refreshing, jobs: SqlStore) -> None:
    claim, attempt = await running_job(jobs, flow.credentials, refresh_url=flow.receiver.url)
    await flow.credentials.purge(claim.job.id)
    provider = flow.provider(attempt)
    assert (await provider.keys("source")).version == 2
    assert flow.receiver.calls[0]["reason"] == "missing"
    await provider.close()


async def test_signed_urls_come_from_the_same_place(flow: Refreshing, jobs: SqlStore) -> None:
    _, attempt = await running_job(jobs, flow.credentials, url_secrets(), locations=URL_PLACES)
    provider = flow.provider(attempt)
    assert CANARY in (await provider.url(None)).signed.url
    assert CANARY in (await provider.url("mp3")).signed.url
    await provider.close()


async def test_a_job_without_credentials_says_so(flow: Refreshing, jobs: SqlStore) -> None:
    _, attempt = await running_job(jobs, flow.credentials, CredentialSet(), refresh_url=None)
    provider = flow.provider(attempt)
    with pytest.raises(StorageError) as caught:
        await provider.keys("source")
    assert caught.value.code == "credentials.no_refresh_url"
    await provider.close()


async def test_a_missing_key_may_come_back_and_a_broken_seal_is_given_up_after_a_few_tries(
    flow: Refreshing, jobs: SqlStore, opened: Opened
) -> None:
    claim, attempt = await running_job(jobs, flow.credentials, refresh_url=flow.receiver.url)
    other = CredentialStore(jobs.engine, keyring("k9"))
    for _ in range(5):
        with pytest.raises(UnreadableCredentials) as caught:
            await flow.provider(attempt, credentials=other).keys("source")
        assert (caught.value.code, caught.value.category) == ("credentials.key_missing", Category.SYSTEM)
        assert not caught.value.give_up
    forged = CredentialStore(jobs.engine, Keyring({"k1": b"x" * 32}, "k1"))
    given_up = []
    for _ in range(4):
        with pytest.raises(UnreadableCredentials) as caught:
            await flow.provider(attempt, credentials=forged).keys("source")
        assert (caught.value.code, caught.value.category) == ("credentials.unreadable", Category.SYSTEM)
        assert CANARY not in str(caught.value)
        given_up.append(caught.value.give_up)
    assert given_up == [False, False, True, True]
    await flow.put(claim.job.id, 1)
    assert (await flow.provider(attempt).keys("source")).version == 2


async def test_the_canary_is_nowhere(
    flow: Refreshing, jobs: SqlStore, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    claim, attempt = await running_job(jobs, flow.credentials, refresh_url=flow.receiver.url)
    provider = flow.provider(attempt)
    await provider.keys("source")
    await provider.renew("source", 1, "expired")
    flow.receiver.answers = [500]
    errors = []
    for scope in ("source", "destination"):
        with pytest.raises(StorageError) as caught:
            await provider.renew(scope, 2, "denied")
        errors.append(repr(caught.value) + str(caught.value) + repr(caught.value.__context__))
    shown = [repr(provider), repr(await provider.keys("source")), caplog.text, *errors]
    for name in await opened.tables.names():
        shown += [json.dumps([str(value) for value in row]) for row in await opened.tables.run(f"SELECT * FROM {name}")]
    await provider.close()
    assert not [text for text in shown if CANARY in text or CANARY.encode().hex() in text]
    assert not [raw for raw in flow.receiver.raw if CANARY.encode() in raw]
    assert claim.job.id in "".join(shown)
