"""PUT of fresh credentials: by compare-and-set, for the same places, and the same answer when it is repeated."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from euterpe.egress.target import EgressPolicy
from euterpe.model.errors import JobNotFound
from euterpe.stores.sql.store import SqlStore
from euterpe.transcode.credentials.repository import CredentialStore
from euterpe.transcode.credentials.update import (
    CredentialsRefused,
    JobEnded,
    Updated,
    UpdateInvalid,
    VersionPassed,
    VersionRequired,
    update_credentials,
)
from tests.conformance.acts import complete
from tests.transcode.credentials.samples import (
    CANARY,
    REQUESTER,
    URL_PLACES,
    running_job,
    update_body,
    url_secrets,
)

HERE, ELSEWHERE = "https://s3.example.com", "https://evil.example.com"
NOW = 1_800_000_000.0


async def put(
    credentials: CredentialStore, job_id: str, body: dict[str, Any], if_match: str | None = '"1"', who: str = REQUESTER
) -> Updated:
    return await update_credentials(credentials, job_id, who, if_match, body, EgressPolicy(), NOW)


async def test_fresh_credentials_advance_the_version(jobs: SqlStore, credentials: CredentialStore) -> None:
    claim, _ = await running_job(jobs, credentials)
    updated = await put(credentials, claim.job.id, update_body(2))
    assert updated == Updated(claim.job.id, 2)
    stored = await credentials.get(claim.job.id)
    assert stored is not None
    assert stored.sealed is not None
    opened = await credentials.unseal(stored, stored.sealed)
    assert opened.source is not None
    assert opened.source.secret_access_key == f"{CANARY}-2"
    assert await credentials.version(claim.job.id) == 2


async def test_each_refusal_has_its_status_and_changes_nothing(jobs: SqlStore, credentials: CredentialStore) -> None:
    claim, _ = await running_job(jobs, credentials)
    job_id = claim.job.id
    cases: list[tuple[type[CredentialsRefused], int, str | None]] = [
        (VersionRequired, 428, None),
        (VersionPassed, 412, '"2"'),
        (VersionPassed, 412, "1"),
        (VersionPassed, 412, 'W/"1"'),
        (VersionPassed, 412, "*"),
    ]
    for kind, status, if_match in cases:
        with pytest.raises(kind) as caught:
            await put(credentials, job_id, update_body(), if_match)
        assert caught.value.http_status == status
    for who, which in (("somebody", job_id), (REQUESTER, str(uuid.uuid4()))):
        with pytest.raises(JobNotFound):
            await put(credentials, which, update_body(), who=who)
    await complete(jobs, claim)
    with pytest.raises(JobEnded) as ended:
        await put(credentials, job_id, update_body())
    assert ended.value.http_status == 409
    assert await credentials.version(job_id) == 1


@pytest.mark.parametrize(
    ("more", "pointer"),
    [
        ({"credentials": {}}, "/credentials/source"),
        ({"source": {"type": "s3", "bucket": "other", "key": "a.flac", "endpoint": HERE}}, "/source"),
        ({"source": {"type": "s3", "bucket": "in-bucket", "key": "a.flac", "endpoint": ELSEWHERE}}, "/source"),
        ({"destination": {"type": "s3", "bucket": "out-bucket", "prefix": "b/", "endpoint": HERE}}, "/destination"),
        ({"destination": {"type": "local", "prefix": "out/"}}, "/destination"),
        ({"refresh_id": "with a space"}, "/refresh_id"),
        ({"surprise": 1}, "/surprise"),
    ],
)
async def test_what_does_not_fit_the_job_is_pointed_at(
    jobs: SqlStore, credentials: CredentialStore, more: dict[str, Any], pointer: str
) -> None:
    claim, _ = await running_job(jobs, credentials)
    with pytest.raises(UpdateInvalid) as caught:
        await put(credentials, claim.job.id, update_body(**more))
    assert caught.value.http_status == 422
    assert pointer in [problem.pointer for problem in caught.value.problems]
    assert CANARY not in str(caught.value) + repr(caught.value.problems)


async def test_credentials_that_are_nearly_over_are_refused(jobs: SqlStore, credentials: CredentialStore) -> None:
    claim, _ = await running_job(jobs, credentials)
    body = update_body()
    body["credentials"]["source"]["expires_at"] = "2027-01-15T08:00:59Z"
    with pytest.raises(UpdateInvalid) as caught:
        await put(credentials, claim.job.id, body)
    assert [problem.pointer for problem in caught.value.problems] == ["/credentials/source/expires_at"]


async def test_a_put_that_is_repeated_gives_the_same_answer_and_changes_nothing(
    jobs: SqlStore, credentials: CredentialStore
) -> None:
    claim, _ = await running_job(jobs, credentials)
    first = await put(credentials, claim.job.id, update_body(2, refresh_id="rf_1"))
    again = await put(credentials, claim.job.id, update_body(3, refresh_id="rf_1"))
    assert (again.credential_version, again.replayed) == (first.credential_version, True)
    stored = await credentials.get(claim.job.id)
    assert stored is not None
    assert stored.sealed is not None
    opened = await credentials.unseal(stored, stored.sealed)
    assert opened.source is not None
    assert opened.source.access_key_id == "AK2"


@pytest.mark.parametrize("same", [True, False])
async def test_of_many_at_once_one_wins(jobs: SqlStore, credentials: CredentialStore, same: bool) -> None:
    claim, _ = await running_job(jobs, credentials)
    bodies = [update_body(n, refresh_id="rf_1" if same else f"rf_{n}") for n in range(8)]
    answers = await asyncio.gather(*(put(credentials, claim.job.id, body) for body in bodies), return_exceptions=True)
    assert await credentials.version(claim.job.id) == 2
    won = [answer for answer in answers if isinstance(answer, Updated)]
    lost = [answer for answer in answers if isinstance(answer, VersionPassed)]
    assert (len(won), len(lost)) == ((8, 0) if same else (1, 7))


async def test_a_job_that_ends_between_the_look_and_the_write_takes_nothing(
    jobs: SqlStore, credentials: CredentialStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, _ = await running_job(jobs, credentials)
    seal = credentials.seal

    async def end_first(*args: Any) -> Any:
        await complete(jobs, claim)
        return await seal(*args)

    monkeypatch.setattr(credentials, "seal", end_first)
    with pytest.raises(JobEnded):
        await put(credentials, claim.job.id, update_body())
    assert await credentials.version(claim.job.id) == 1


async def test_signed_urls_are_replaced_by_urls_of_the_same_places(
    jobs: SqlStore, credentials: CredentialStore
) -> None:
    claim, _ = await running_job(jobs, credentials, url_secrets(), locations=URL_PLACES)
    source = {"type": "signed_url", "url": "https://example.com/a.flac?sig=new"}
    elsewhere = {"type": "signed_url", "url": "https://example.com/b.flac?sig=new"}
    bad: list[tuple[dict[str, Any], str]] = [
        ({"source": source}, "/put_urls/mp3"),
        ({"put_urls": {"mp3": "https://example.com/a.mp3?sig=new"}}, "/source"),
        ({}, "/source"),
        ({"source": elsewhere, "put_urls": {"mp3": "https://example.com/a.mp3"}}, "/source"),
        ({"source": source, "put_urls": {"mp3": "https://example.com/b.mp3"}}, "/destination"),
        ({"source": source, "put_urls": {"mp3": "http://example.com/a.mp3"}}, "/put_urls/mp3"),
        ({"source": source, "put_urls": {"mp3": "https://example.com/a.mp3", "x": "y"}}, "/put_urls/x"),
    ]
    for body, pointer in bad:
        with pytest.raises(UpdateInvalid) as caught:
            await put(credentials, claim.job.id, body)
        assert pointer in [problem.pointer for problem in caught.value.problems], body
    body = {"source": source, "put_urls": {"mp3": {"url": "https://example.com/a.mp3?sig=new", "headers": {"a": "b"}}}}
    assert (await put(credentials, claim.job.id, body)).credential_version == 2
