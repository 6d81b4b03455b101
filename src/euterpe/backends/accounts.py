"""The accounts of a database: API keys, webhook secrets, and a requester's first of both."""

from __future__ import annotations

from euterpe.backends.database import database_of
from euterpe.crypto import SealingKeys
from euterpe.ports import Store
from euterpe.stores.sql.accounts.enrolment import Enrolment
from euterpe.stores.sql.accounts.keys import ApiKeys
from euterpe.stores.sql.accounts.secrets import WebhookSecrets


def api_keys(store: Store) -> ApiKeys:
    return ApiKeys(database_of(store))


def webhook_secrets(store: Store, keyring: SealingKeys) -> WebhookSecrets:
    return WebhookSecrets(database_of(store), keyring)


def enrolment(store: Store, keyring: SealingKeys) -> Enrolment:
    return Enrolment(database_of(store), keyring)
