"""Secrets are kept open for a moment, never longer: a rotation or a retirement is noticed in time."""

from __future__ import annotations

import base64

import pytest

from euterpe.backends.engines import Backend
from euterpe.backends.keychain import keyring_for
from euterpe.crypto import InvalidKeyring
from euterpe.model.accounts import UnknownSecret
from euterpe.stores.sql.accounts.secrets import WebhookSecrets
from euterpe.webhook.settings import KEPT_OPEN_S, OpenedSecrets
from euterpe.webhook.signing import new_secret
from tests.sql_stores import sql

ENVIRON = {"EUTERPE_KEKS": f"k1:{base64.b64encode(bytes(range(32))).decode()}"}


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_a_rotation_and_a_retirement_are_noticed_within_five_seconds(backend: Backend, url: str) -> None:
    engine, clock = sql(backend.store).engine, Clock()
    stored = WebhookSecrets(engine, keyring_for(url, ENVIRON))
    first, second = new_secret(), new_secret()
    record = await stored.create("shop", first)
    assert record is not None
    opened = OpenedSecrets(url, backend.store, ENVIRON, clock)
    assert await opened.active("shop") == (first,)
    await stored.rotate("shop", second)
    clock.now += KEPT_OPEN_S - 0.001
    assert await opened.active("shop") == (first,), "still open from before"
    clock.now += 0.002
    assert await opened.active("shop") == (first, second)
    await stored.retire(record.id)
    clock.now += KEPT_OPEN_S
    assert await opened.active("shop") == (second,)
    assert KEPT_OPEN_S <= 5


async def test_a_missing_secret_is_looked_for_again_at_once(backend: Backend, url: str) -> None:
    engine = sql(backend.store).engine
    opened = OpenedSecrets(url, backend.store, ENVIRON, Clock())
    with pytest.raises(UnknownSecret, match="keys secrets rotate --requester shop"):
        await opened.active("shop")
    secret = new_secret()
    await WebhookSecrets(engine, keyring_for(url, ENVIRON)).create("shop", secret)
    assert await opened.active("shop") == (secret,)


async def test_without_keys_nothing_is_opened_and_no_key_file_is_made(backend: Backend, url: str) -> None:
    with pytest.raises(InvalidKeyring, match="EUTERPE_KEKS is not set"):
        OpenedSecrets(url, backend.store, {})
