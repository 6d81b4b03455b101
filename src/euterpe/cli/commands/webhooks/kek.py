"""`euterpe kek`: the operator's key-encryption keys, and moving secrets from an old one to the active one."""

from __future__ import annotations

import os

import click

from euterpe.backends.database import database_of
from euterpe.backends.engines import Backend
from euterpe.backends.keychain import keyring_for
from euterpe.cli.commands.webhooks.keys import secrets_of
from euterpe.cli.output import note, print_json, print_line, print_table
from euterpe.cli.session import CliSession, database_options, json_option, sql_only
from euterpe.crypto import InvalidKeyring, Keyring
from euterpe.transcode.credentials.keys import KmsAndKeyring, credential_keys
from euterpe.transcode.credentials.repository import CredentialStore


@click.group()
def kek() -> None:
    """Show key-encryption keys and rewrap secrets."""


def _keyring(session: CliSession) -> Keyring:
    keyring = keyring_for(session.url, os.environ, create=False)
    if not isinstance(keyring, Keyring):
        raise InvalidKeyring("EUTERPE_SEALING=plaintext seals nothing: there are no keys to show or to move to")
    return keyring


def _credential_keys(session: CliSession) -> Keyring | KmsAndKeyring:
    """The same keyring, or KMS beside it."""
    keys = credential_keys(session.url, os.environ, create=False)
    return keys if isinstance(keys, KmsAndKeyring) else _keyring(session)


@kek.command()
@json_option
@database_options
@click.pass_obj
@sql_only
def status(session: CliSession, as_json: bool) -> None:
    """Show the keys that this process has, the active one, and how many secrets and credentials each key wraps."""
    keyring, keys = _keyring(session), _credential_keys(session)

    async def ask(backend: Backend) -> tuple[dict[str, int], dict[str, int]]:
        secrets = await secrets_of(session, backend).count_by_kek()
        return secrets, await CredentialStore(database_of(backend.store), keys).count_by_kek()

    secrets, credentials = session.ask(ask)
    here = keyring.kek_ids | keys.kek_ids
    rows = [
        {
            "kek_id": name,
            "here": name in here,
            "active": name in (keyring.active_kek_id, keys.active_kek_id),
            "secrets": secrets.get(name, 0),
            "credentials": credentials.get(name, 0),
        }
        for name in sorted(here | secrets.keys() | credentials.keys())
    ]
    if as_json:
        print_json({"keks": rows})
        return
    print_table(
        ("kek", "here", "active", "secrets", "credentials"),
        [
            (
                row["kek_id"],
                "yes" if row["here"] else "MISSING",
                "yes" if row["active"] else "",
                row["secrets"],
                row["credentials"],
            )
            for row in rows
        ],
        flexible="kek",
    )
    for row in rows:
        if not row["here"]:
            print_line(f"{row['kek_id']} is missing: what it wraps cannot be opened until EUTERPE_KEKS holds it again")


@kek.command()
@json_option
@database_options
@click.pass_obj
@sql_only
def rewrap(session: CliSession, as_json: bool) -> None:
    """Wrap every secret with the active key, so that you can remove older keys. You can run it again at any time."""
    keyring, keys = _keyring(session), _credential_keys(session)

    async def act(backend: Backend) -> tuple[int, int]:
        secrets = await secrets_of(session, backend).rewrap_all(keyring)
        store = CredentialStore(database_of(backend.store), keys)
        left = sum(count for name, count in (await store.count_by_kek()).items() if name != keys.active_kek_id)

        def progress(done: int) -> None:
            note(f"{done} of {left} storage credentials rewrapped")

        return secrets, await store.rewrap_all(keys, None if as_json else progress)

    secrets, credentials = session.ask(act)
    if as_json:
        print_json(
            {
                "rewrapped": secrets,
                "active_kek_id": keyring.active_kek_id,
                "credentials": {"rewrapped": credentials, "active_kek_id": keys.active_kek_id},
            }
        )
        return
    print_line(f"{secrets} secrets rewrapped by {keyring.active_kek_id}")
    if credentials:
        print_line(f"{credentials} storage credentials rewrapped by {keys.active_kek_id}")
