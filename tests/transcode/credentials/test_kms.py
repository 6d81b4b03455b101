"""AWS KMS as the keeper of the key, against moto: bound wraps, other keys, and the way there and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from euterpe.crypto import InvalidKeyring, MissingKek, SealBroken, SealContext, rewrap, seal, unseal
from euterpe.stores.sql.store import SqlStore
from euterpe.transcode.credentials.keys import KmsAndKeyring, credential_keys
from euterpe.transcode.credentials.kms import KeyServiceFailed, KmsKeys
from euterpe.transcode.credentials.repository import CredentialStore
from euterpe.transcode.schema.locations import AccessKeys
from tests.servers.s3 import MotoServer
from tests.transcode.credentials.conftest import keyring
from tests.transcode.credentials.samples import running_job, secrets

AWS = AccessKeys(access_key_id="testing", secret_access_key="testing", session_token="token")
CONTEXT = SealContext("storage-credentials", ("job", "requester", "1"))
KEK = "k1:" + "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI="


def ask(moto: MotoServer, operation: str, **document: Any) -> dict[str, Any]:
    keys = KmsKeys("none", "eu-west-1", AWS, moto.url)
    return keys._call(operation, "none", document)


def new_key(moto: MotoServer) -> str:
    return str(ask(moto, "CreateKey")["KeyMetadata"]["KeyId"])


@pytest.fixture
def kms(moto: MotoServer) -> KmsKeys:
    return KmsKeys(new_key(moto), "eu-west-1", AWS, moto.url)


def test_what_kms_wrapped_opens_in_its_own_context_only(kms: KmsKeys) -> None:
    sealed = seal(b"secret", CONTEXT, kms)
    assert sealed.kek_id == kms.active_kek_id
    assert sealed.kek_id.startswith("kms:")
    assert b"secret" not in sealed.encrypted + sealed.dek_wrapped
    assert unseal(sealed, CONTEXT, kms) == b"secret"
    with pytest.raises(SealBroken):
        unseal(sealed, SealContext("storage-credentials", ("job", "requester", "2")), kms)


def test_another_key_does_not_open_it(moto: MotoServer, kms: KmsKeys) -> None:
    sealed = seal(b"secret", CONTEXT, kms)
    other = KmsKeys(new_key(moto), "eu-west-1", AWS, moto.url)
    claimed = type(sealed)(sealed.encrypted, sealed.dek_wrapped, other.active_kek_id, sealed.encryption_version)
    with pytest.raises(SealBroken):
        unseal(claimed, CONTEXT, other)
    assert unseal(sealed, CONTEXT, other) == b"secret"


def test_a_service_that_refuses_or_is_away_is_worth_a_retry(moto: MotoServer, kms: KmsKeys) -> None:
    sealed = seal(b"secret", CONTEXT, kms)
    with pytest.raises(KeyServiceFailed, match="400 NotFoundException"):
        seal(b"secret", CONTEXT, KmsKeys("00000000-0000-4000-8000-000000000000", "eu-west-1", AWS, moto.url))
    away = KmsKeys("key", "eu-west-1", AWS, "http://127.0.0.1:9")
    with pytest.raises(MissingKek, match="did not answer"):
        unseal(sealed, CONTEXT, away)
    with pytest.raises(MissingKek):
        kms.unwrap("k1", b"", b"")


def test_a_blob_moves_from_the_keyring_to_kms_and_back(kms: KmsKeys) -> None:
    ring = keyring("k1")
    there, back = KmsAndKeyring(kms, ring, kms), KmsAndKeyring(kms, ring, ring)
    sealed = seal(b"secret", CONTEXT, ring)
    at_kms = rewrap(sealed, CONTEXT, there)
    assert (at_kms.kek_id, at_kms.encrypted) == (kms.active_kek_id, sealed.encrypted)
    assert unseal(at_kms, CONTEXT, back) == b"secret"
    again = rewrap(at_kms, CONTEXT, back)
    assert again.kek_id == "k1"
    assert unseal(again, CONTEXT, ring) == b"secret"
    assert there.kek_ids == {"k1", kms.active_kek_id}


async def test_stored_credentials_are_rewrapped_by_kms(
    jobs: SqlStore, credentials: CredentialStore, kms: KmsKeys
) -> None:
    claim, _ = await running_job(jobs, credentials)
    keys = KmsAndKeyring(kms, keyring("k1"), kms)
    store = CredentialStore(jobs.engine, keys)
    assert await store.rewrap_all(keys) == 1
    assert await store.count_by_kek() == {kms.active_kek_id: 1}
    stored = await store.get(claim.job.id)
    assert stored is not None
    assert stored.sealed is not None
    assert await store.unseal(stored, stored.sealed) == secrets()


def test_the_environment_says_who_wraps(moto: MotoServer, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    aws = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": "eu-west-1"}
    env = {"EUTERPE_KMS_KEY": new_key(moto), "EUTERPE_KMS_ENDPOINT": moto.url, **aws}
    alone = credential_keys(url, env)
    assert isinstance(alone, KmsAndKeyring)
    assert alone.active_kek_id == f"kms:{env['EUTERPE_KMS_KEY']}"
    both = credential_keys(url, {**env, "EUTERPE_KEKS": KEK})
    assert isinstance(both, KmsAndKeyring)
    assert both.kek_ids == {"k1", alone.active_kek_id}
    back = credential_keys(url, {**env, "EUTERPE_KEKS": KEK, "EUTERPE_KMS_MODE": "open"})
    assert isinstance(back, KmsAndKeyring)
    assert back.active_kek_id == "k1"
    wrong = [
        {**env, "EUTERPE_KMS_MODE": "maybe"},
        {**env, "EUTERPE_KMS_MODE": "open"},
        {**env, "AWS_SECRET_ACCESS_KEY": ""},
        {**env, "EUTERPE_KEKS": "broken"},
        {**env, "EUTERPE_KMS_ENDPOINT": "http://kms.example.com"},
        {**env, "EUTERPE_SEALING": "plaintext", "EUTERPE_ENV": "test"},
        {"EUTERPE_SEALING": "plaintext", "EUTERPE_ENV": "production"},
    ]
    for one in wrong:
        with pytest.raises(InvalidKeyring) as caught:
            credential_keys(url, one)
        assert "testing" not in str(caught.value)


def test_a_representation_shows_no_key(kms: KmsKeys) -> None:
    assert json.dumps(repr(KmsAndKeyring(kms, keyring("k1"), kms))).count("testing") == 0
