"""Credentials at rest: sealed, bound to their row, rewrapped by compare-and-set, and gone when the job has ended."""

from __future__ import annotations

import uuid
from pathlib import Path

import msgspec
import pytest

from euterpe.crypto import InvalidKeyring, MissingKek, PlaintextKeys, SealBroken
from euterpe.model.errors import StaleLease
from euterpe.model.failures.failure import Category
from euterpe.stores.sql.store import SqlStore
from euterpe.transcode.credentials import repository
from euterpe.transcode.credentials.repository import CredentialStore, SqlUploads, claim_fence
from euterpe.transcode.storage.ports import OpenUpload, UploadAttempt
from tests.conformance.acts import complete, fail, release, take_one, taken
from tests.conformance.clock import FrozenClock
from tests.conformance.engines import Opened
from tests.transcode.credentials.conftest import keyring
from tests.transcode.credentials.samples import CANARY, REQUESTER, S3_PLACES, running_job, secrets

TABLE = "euterpe_transcode_credentials"


async def test_what_is_stored_is_sealed_and_the_places_are_not(
    opened: Opened, jobs: SqlStore, credentials: CredentialStore, tmp_path: Path
) -> None:
    claim, _ = await running_job(jobs, credentials)
    stored = await credentials.get(claim.job.id)
    assert stored is not None
    assert stored.sealed is not None
    assert (stored.version, stored.kek_id, stored.encryption_version) == (1, "k1", 1)
    assert stored.locations == S3_PLACES
    assert await credentials.unseal(stored, stored.sealed) == secrets()
    columns = "source_bucket, source_key, destination_bucket, destination_prefix"
    assert await opened.tables.run(f"SELECT {columns} FROM {TABLE}") == [("in-bucket", "a.flac", "out-bucket", "out/")]
    everything = [repr(stored)] + [str(row) for row in await opened.tables.run(f"SELECT * FROM {TABLE}")]
    assert not [text for text in everything if CANARY in text]
    assert not [path for path in tmp_path.iterdir() if path.is_file() and CANARY.encode() in path.read_bytes()]  # noqa: ASYNC240


@pytest.mark.parametrize("change", ["job_id", "requester_id", "version"])
async def test_a_seal_that_was_moved_to_another_row_does_not_open(
    jobs: SqlStore, credentials: CredentialStore, change: str
) -> None:
    claim, _ = await running_job(jobs, credentials)
    stored = await credentials.get(claim.job.id)
    assert stored is not None
    assert stored.sealed is not None
    other: dict[str, object] = {"job_id": str(uuid.uuid4()), "requester_id": "sona", "version": 2}
    moved = msgspec.structs.replace(stored, **{change: other[change]})
    with pytest.raises(SealBroken):
        await credentials.unseal(moved, stored.sealed)


async def test_the_same_credentials_are_sealed_differently_each_time(
    jobs: SqlStore, credentials: CredentialStore
) -> None:
    one, two = [await credentials.seal("j", "r", 1, secrets()) for _ in range(2)]
    assert one.encrypted != two.encrypted
    assert one.dek_wrapped != two.dek_wrapped


async def test_a_submission_that_is_repeated_keeps_the_first_credentials(
    jobs: SqlStore, credentials: CredentialStore
) -> None:
    claim, _ = await running_job(jobs, credentials)
    await credentials.create(claim.job.id, REQUESTER, S3_PLACES, secrets(9), None)
    stored = await credentials.get(claim.job.id)
    assert stored is not None
    assert stored.sealed is not None
    assert await credentials.unseal(stored, stored.sealed) == secrets(1)


async def test_the_end_of_a_job_leaves_nothing_sealed(jobs: SqlStore, credentials: CredentialStore) -> None:
    ended = [(await running_job(jobs, credentials))[0] for _ in range(3)]
    await complete(jobs, ended[0])
    await fail(jobs, ended[1], Category.PERMANENT)
    await jobs.cancel(ended[2].job.id, force=True)
    waiting, _ = await running_job(jobs, credentials)
    await release(jobs, waiting)
    assert await credentials.purge_ended() == 3
    assert await credentials.purge_ended() == 0
    for claim in ended:
        stored = await credentials.get(claim.job.id)
        assert stored is not None
        assert (stored.sealed, stored.version) == (None, 1)
    kept = await credentials.get(waiting.job.id)
    assert kept is not None
    assert kept.sealed is not None
    assert await credentials.purge(waiting.job.id)
    assert not await credentials.purge(waiting.job.id)


async def test_a_job_has_ended_when_nobody_will_run_it_again(jobs: SqlStore, credentials: CredentialStore) -> None:
    claim = await taken(jobs)
    assert not await credentials.has_ended(claim.job.id)
    assert not await credentials.has_ended(str(uuid.uuid4()))
    await complete(jobs, claim)
    assert await credentials.has_ended(claim.job.id)


async def test_credentials_of_a_job_that_never_came_go_after_an_hour(
    opened: Opened, credentials: CredentialStore, clock: FrozenClock
) -> None:
    await credentials.create(str(uuid.uuid4()), REQUESTER, S3_PLACES, secrets(), None)
    assert (await credentials.purge_ended(), await credentials.forget_pruned()) == (0, 0)
    clock.advance(hours=1, seconds=1)
    assert (await credentials.purge_ended(), await credentials.forget_pruned()) == (1, 1)
    assert await opened.tables.run(f"SELECT * FROM {TABLE}") == []


async def test_a_rewrap_goes_on_where_it_was_broken_off(
    jobs: SqlStore, credentials: CredentialStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("euterpe.transcode.credentials.repository.REWRAP_BATCH", 2)
    claims = [(await running_job(jobs, credentials))[0] for _ in range(5)]

    def break_off(_: int) -> None:
        raise KeyboardInterrupt

    rotated = keyring("k1", "k2")
    with pytest.raises(KeyboardInterrupt):
        await credentials.rewrap_all(rotated, break_off)
    assert await credentials.count_by_kek() == {"k1": 3, "k2": 2}
    done: list[int] = []
    assert await credentials.rewrap_all(rotated, done.append) == 3
    assert done == [2, 3]
    assert await credentials.rewrap_all(rotated) == 0
    after = CredentialStore(jobs.engine, keyring("k2"))
    for claim in claims:
        stored = await after.get(claim.job.id)
        assert stored is not None
        assert stored.sealed is not None
        assert await after.unseal(stored, stored.sealed) == secrets()


async def test_a_rewrap_does_not_undo_a_refresh_that_came_between(jobs: SqlStore, credentials: CredentialStore) -> None:
    claim, _ = await running_job(jobs, credentials)
    stored = await credentials.get(claim.job.id)
    assert stored is not None
    fresh = await credentials.seal(stored.job_id, stored.requester_id, 2, secrets(2))

    rows = await jobs.engine.read(lambda: repository.credentials_to_rewrap("k2", repository.LOWEST_ID))
    wraps = repository._rewrapped(rows, keyring("k1", "k2"))
    assert await credentials.replace(stored, fresh, None, None) is not None
    assert await jobs.engine.write(lambda: repository.store_wraps(wraps)) == 0
    current = await credentials.get(claim.job.id)
    assert current is not None
    assert current.sealed is not None
    assert await credentials.unseal(current, current.sealed) == secrets(2)


async def test_a_missing_key_is_not_a_broken_seal(jobs: SqlStore, credentials: CredentialStore) -> None:
    claim, _ = await running_job(jobs, credentials)
    stored = await credentials.get(claim.job.id)
    assert stored is not None
    assert stored.sealed is not None
    with pytest.raises(MissingKek):
        await CredentialStore(jobs.engine, keyring("k9")).unseal(stored, stored.sealed)


def test_plaintext_is_refused_outside_of_development() -> None:
    for environment in ("", "production", "staging"):
        with pytest.raises(InvalidKeyring):
            PlaintextKeys({"EUTERPE_ENV": environment})
    PlaintextKeys({"EUTERPE_ENV": "test"})


async def test_a_real_keyring_does_not_open_what_was_planted_in_plain(
    jobs: SqlStore, credentials: CredentialStore
) -> None:
    plain = CredentialStore(jobs.engine, PlaintextKeys({"EUTERPE_ENV": "test"}))
    claim, _ = await running_job(jobs, plain)
    stored = await credentials.get(claim.job.id)
    assert stored is not None
    assert stored.sealed is not None
    assert await plain.unseal(stored, stored.sealed) == secrets()
    with pytest.raises(SealBroken):
        await credentials.unseal(stored, stored.sealed)


async def test_the_fence_is_the_claim_itself(jobs: SqlStore, clock: FrozenClock) -> None:
    claim = await taken(jobs)
    fence = claim_fence(jobs.engine, UploadAttempt(claim.job.id, claim.job.claim_version))
    await fence()
    await release(jobs, claim)
    with pytest.raises(StaleLease):
        await fence()
    await take_one(jobs)
    with pytest.raises(StaleLease):
        await fence()


async def test_uploads_of_older_claims_are_known_to_the_next_one(jobs: SqlStore) -> None:
    claim = await taken(jobs)
    old, uploads = UploadAttempt(claim.job.id, claim.job.claim_version), SqlUploads(jobs.engine)
    await uploads.opened(old, OpenUpload("out/a", "u1"))
    await uploads.opened(old, OpenUpload("out/b", "u2"))
    await uploads.closed(old, OpenUpload("out/b", "u2"))
    assert await uploads.left_by_others(old) == []
    await release(jobs, claim)
    with pytest.raises(StaleLease):
        await uploads.opened(old, OpenUpload("out/c", "u3"))
    again = await take_one(jobs)
    new = UploadAttempt(again.job.id, again.job.claim_version)
    assert await uploads.left_by_others(new) == [OpenUpload("out/a", "u1")]
    await uploads.closed(new, OpenUpload("out/a", "u1"))
    assert await uploads.left_by_others(new) == []
