"""Keys in the store: what is kept of them, how they end, and the first one."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator

import pytest

from euterpe.backends.engines import Backend, connect
from euterpe.model.accounts import Scope, UnknownKey, split_key
from euterpe.model.errors import InvalidInput
from euterpe.stores.sql.accounts.keys import ApiKeys
from euterpe.stores.sql.program import Program, Row, one
from tests.sql_stores import sql

HOUR_US = 3_600_000_000


@pytest.fixture
async def backend(url: str) -> AsyncIterator[Backend]:
    opened = connect(url)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def keys(backend: Backend) -> ApiKeys:
    return ApiKeys(sql(backend.store).engine)


async def test_a_key_is_stored_as_the_hash_of_its_secret_alone(backend: Backend, keys: ApiKeys) -> None:
    created = await keys.create_key("vesta", ["read", "submit"])
    assert re.fullmatch(r"ek_[a-z0-9]{8}\.[A-Za-z0-9_-]{43}", created.key)
    prefix, secret = split_key(created.key) or ("", "")

    def row() -> Program[Row]:
        rows = yield one("get_api_key", prefix=prefix)
        return rows[0]

    stored = list(await sql(backend.store).engine.read(row))
    assert bytes(stored[6]) == hashlib.sha256(secret.encode()).digest()
    assert secret not in repr(stored)
    assert created.record.scopes == (Scope.SUBMIT, Scope.READ)


async def test_only_the_whole_secret_opens(keys: ApiKeys) -> None:
    created = await keys.create_key("vesta", ["read"])
    prefix, secret = split_key(created.key) or ("", "")
    stored = await keys.find(prefix)
    assert stored is not None
    assert stored.opens_with(secret)
    assert not stored.opens_with(secret[:-1] + ("A" if secret[-1] != "A" else "B"))
    assert not stored.opens_with("")
    assert await keys.find("ek_nobodys1") is None


async def test_two_keys_never_look_alike(keys: ApiKeys) -> None:
    made = [(await keys.create_key("vesta", ["read"])).key for _ in range(20)]
    assert len(set(made)) == 20
    assert len(await keys.list_keys("vesta")) == 20
    assert await keys.list_keys("somebody-else") == []


@pytest.mark.parametrize("scopes", [[], ["root"], ["read", "sing"]])
async def test_a_scope_that_is_none_is_refused(keys: ApiKeys, scopes: list[str]) -> None:
    with pytest.raises(InvalidInput) as refused:
        await keys.create_key("vesta", scopes)
    assert refused.value.field == "scope"
    assert await keys.list_keys() == []


@pytest.mark.parametrize("requester", ["", "a b", "a/b", "*", "x" * 101, "a\x00", "ü"])
async def test_a_requester_with_a_strange_name_is_refused(keys: ApiKeys, requester: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await keys.create_key(requester, ["read"])
    assert refused.value.field == "requester"


async def test_an_expired_key_is_over(keys: ApiKeys) -> None:
    created = await keys.create_key("vesta", ["read"], expires_in_us=1)
    stored = await keys.find(created.record.prefix)
    assert stored is not None
    assert stored.is_over
    lasting = await keys.create_key("vesta", ["read"], expires_in_us=HOUR_US)
    assert lasting.record.expires_at == lasting.record.created_at + HOUR_US


async def test_a_revoked_key_is_over_and_stays_listed(keys: ApiKeys) -> None:
    created = await keys.create_key("vesta", ["read"])
    first = await keys.revoke_key(created.record.prefix)
    again = await keys.revoke_key(created.record.prefix)
    assert first.revoked_at is not None
    assert again.revoked_at == first.revoked_at
    stored = await keys.find(created.record.prefix)
    assert stored is not None
    assert stored.is_over
    assert [record.prefix for record in await keys.list_keys()] == [created.record.prefix]


async def test_revoking_what_is_not_there_says_so(keys: ApiKeys) -> None:
    with pytest.raises(UnknownKey):
        await keys.revoke_key("ek_nobodys1")


async def test_a_rotated_key_lives_on_for_its_grace_beside_its_successor(keys: ApiKeys) -> None:
    old = await keys.create_key("vesta", ["read", "worker"], expires_in_us=HOUR_US)
    new = await keys.rotate_key(old.record.prefix, grace_us=60_000_000)
    assert (new.record.requester_id, new.record.scopes) == ("vesta", old.record.scopes)
    assert (new.record.expires_at or 0) - new.record.created_at == HOUR_US
    before, after = await keys.find(old.record.prefix), await keys.find(new.record.prefix)
    assert before is not None
    assert after is not None
    assert not before.is_over
    assert not after.is_over
    assert (before.record.expires_at or 0) <= before.read_at + 60_000_000
    await keys.rotate_key(old.record.prefix, grace_us=0)
    ended = await keys.find(old.record.prefix)
    assert ended is not None
    assert ended.is_over
    with pytest.raises(UnknownKey):
        await keys.rotate_key(old.record.prefix)


async def test_the_first_key_is_made_once_however_many_processes_start(url: str, keys: ApiKeys) -> None:
    others = [connect(url) for _ in range(4)]
    for other in others:
        await other.open()
    starting = [keys, *(ApiKeys(sql(other.store).engine) for other in others)]
    made = await asyncio.gather(*(each.ensure_first_key() for each in starting))
    created = [key for key in made if key is not None]
    assert len(created) == 1
    assert created[0].record.scopes == tuple(Scope)
    assert await keys.ensure_first_key() is None
    for other in others:
        await other.close()


async def test_there_is_no_first_key_where_somebody_already_has_one(keys: ApiKeys) -> None:
    await keys.create_key("vesta", ["read"])
    assert await keys.ensure_first_key() is None
