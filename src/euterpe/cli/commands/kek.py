"""`euterpe kek`: the operator's key-encryption keys, and moving secrets from an old one to the active one."""

from __future__ import annotations

import os

import click

from euterpe.backends.engines import Backend
from euterpe.backends.keychain import keyring_for
from euterpe.cli.commands.keys import secrets_of
from euterpe.cli.output import print_json, print_table, say
from euterpe.cli.session import Session, database_options, json_option
from euterpe.crypto import InvalidKeyring, Keyring


@click.group()
def kek() -> None:
    """Show key-encryption keys and rewrap secrets."""


def _keyring(session: Session) -> Keyring:
    keyring = keyring_for(session.url, os.environ, create=False)
    if not isinstance(keyring, Keyring):
        raise InvalidKeyring("EUTERPE_SEALING=plaintext seals nothing: there are no keys to show or to move to")
    return keyring


@kek.command()
@json_option
@database_options
@click.pass_obj
def status(session: Session, as_json: bool) -> None:
    """Show which keys are here, which one wraps, and how many secrets each has wrapped."""
    keyring = _keyring(session)
    counts = session.ask(lambda backend: secrets_of(session, backend).count_by_kek())
    known = sorted(keyring.kek_ids | set(counts))
    rows = [
        {
            "kek_id": name,
            "here": name in keyring.kek_ids,
            "active": name == keyring.active_kek_id,
            "secrets": counts.get(name, 0),
        }
        for name in known
    ]
    if as_json:
        print_json({"keks": rows})
        return
    print_table(
        ("kek", "here", "active", "secrets"),
        [(r["kek_id"], "yes" if r["here"] else "MISSING", "yes" if r["active"] else "", r["secrets"]) for r in rows],
        flexible="kek",
    )
    for row in rows:
        if not row["here"]:
            say(f"{row['kek_id']} is missing: its secrets cannot be opened until EUTERPE_KEKS holds it again")


@kek.command()
@json_option
@database_options
@click.pass_obj
def rewrap(session: Session, as_json: bool) -> None:
    """Wrap every secret by the active key, so that older keys can go."""
    keyring = _keyring(session)

    async def act(backend: Backend) -> int:
        return await secrets_of(session, backend).rewrap_all(keyring)

    changed = session.ask(act)
    if as_json:
        print_json({"rewrapped": changed, "active_kek_id": keyring.active_kek_id})
    else:
        say(f"{changed} secrets rewrapped by {keyring.active_kek_id}")
