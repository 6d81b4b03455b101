"""The store behind the webhook secrets: sealed, at most two, the older first."""

from __future__ import annotations

import secrets

import pytest

from euterpe.backends.engines import Backend
from euterpe.crypto import Keyring, MissingKek
from euterpe.model.errors import InvalidInput
from euterpe.stores.sql.accounts.secrets import WebhookSecrets
from tests.cli.states import with_store
from tests.sql_stores import sql


def keyring(*names: str) -> Keyring:
    return Keyring({name: name.encode().ljust(32, b"-") for name in names}, names[-1])


def test_what_is_stored_is_sealed_and_opens_with_the_right_keys_only(engine_url: str) -> None:
    secret = f"whsec_{secrets.token_urlsafe(32)}"

    async def act(backend: Backend) -> None:
        engine = sql(backend.store).engine
        ours = WebhookSecrets(engine, keyring("k1"))
        assert await ours.create("vesta", secret) is not None
        assert await ours.create("vesta", "whsec_another") is None
        assert await ours.active("vesta") == (secret,)
        assert await ours.active("sona") == ()
        with pytest.raises(MissingKek):
            await WebhookSecrets(engine, keyring("k2")).active("vesta")
        assert await ours.rewrap_all(keyring("k1", "k2")) == 1
        assert await WebhookSecrets(engine, keyring("k2")).active("vesta") == (secret,)

    with_store(engine_url, act)


def test_the_older_of_two_secrets_comes_first_until_it_is_retired(engine_url: str) -> None:
    async def act(backend: Backend) -> None:
        ours = WebhookSecrets(sql(backend.store).engine, keyring("k1"))
        await ours.create("vesta", "whsec_old")
        new = await ours.rotate("vesta", "whsec_new")
        assert await ours.active("vesta") == ("whsec_old", "whsec_new")
        with pytest.raises(InvalidInput, match="two active secrets"):
            await ours.rotate("vesta", "whsec_third")
        ((old, signs), _) = await ours.list_secrets("vesta")
        assert signs
        await ours.retire(old.id)
        assert await ours.active("vesta") == ("whsec_new",)
        await ours.rotate("vesta", "whsec_next", grace_us=0)
        assert await ours.active("vesta") == ("whsec_next",)
        assert [record.id for record, signs in await ours.list_secrets() if not signs] == [old.id, new.id]

    with_store(engine_url, act)
