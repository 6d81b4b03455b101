"""A requester's key and its webhook secret, made in one transaction and handed out once."""

from __future__ import annotations

from collections.abc import Iterable

from euterpe.crypto import SealingKeys
from euterpe.model.accounts import CreatedKey, KeyRecord, hash_secret, parse_scopes
from euterpe.model.duration import LONGEST_US
from euterpe.model.errors import InvalidInput
from euterpe.model.submitting.submission import LOCAL_REQUESTER
from euterpe.stores.sql.accounts.keys import check_requester, create_key, first_key, new_key
from euterpe.stores.sql.accounts.secrets import create_secret
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.program import Program


class Enrolment:
    """Makes keys; a requester's first one comes with the secret that signs its webhooks."""

    def __init__(self, engine: Engine, keyring: SealingKeys) -> None:
        self._engine = engine
        self._keyring = keyring

    async def create(
        self, requester: str, scopes: Iterable[str], webhook_secret: str, expires_in_us: int | None = None
    ) -> CreatedKey:
        """A key; `webhook_secret` is in the answer if it was stored, None if the requester has one already."""
        check_requester(requester)
        granted = parse_scopes(scopes)
        if expires_in_us is not None and not 0 < expires_in_us <= LONGEST_US:
            raise InvalidInput("expires", "must be longer than nothing and at most ten years")
        key, prefix, secret = new_key()

        def program() -> Program[tuple[KeyRecord, bool]]:
            record = yield from create_key(requester, granted, prefix, hash_secret(secret), expires_in_us)
            return record, (yield from create_secret(requester, webhook_secret, self._keyring)) is not None

        record, stored = await self._engine.write(program)
        return CreatedKey(key, record, webhook_secret if stored else None)

    async def ensure_first(self, webhook_secret: str, requester: str = LOCAL_REQUESTER) -> CreatedKey | None:
        """The embedded default's key with every scope, made when no key exists yet; None ever after."""
        check_requester(requester)
        key, prefix, secret = new_key()

        def program() -> Program[tuple[KeyRecord, bool] | None]:
            record = yield from first_key(requester, prefix, hash_secret(secret))
            if record is None:
                return None
            return record, (yield from create_secret(requester, webhook_secret, self._keyring)) is not None

        made = await self._engine.write(program)
        if made is None:
            return None
        record, stored = made
        return CreatedKey(key, record, webhook_secret if stored else None)
