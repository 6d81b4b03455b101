"""`euterpe keys`: requesters' API keys and the secrets that sign their webhooks. Both are shown once, when made."""

from __future__ import annotations

import os
from typing import Any

import click

from euterpe.backends.accounts import api_keys, enrolment, webhook_secrets
from euterpe.backends.engines import Backend
from euterpe.backends.keychain import key_file_of, keyring_for
from euterpe.cli.documents import key_document
from euterpe.cli.output import confirm, note, print_json, print_line, print_table
from euterpe.cli.session import CliSession, database_options, json_option, sql_only, yes_option
from euterpe.cli.values import DURATION, NAMES
from euterpe.crypto.keyring import KEKS_VARIABLE
from euterpe.model.accounts import CreatedKey, KeyRecord, SecretRecord
from euterpe.model.reading.document import rfc3339
from euterpe.stores.sql.accounts.secrets import WebhookSecrets
from euterpe.webhook.signing import new_secret


@click.group()
def keys() -> None:
    """Create, list, rotate and revoke API keys and webhook secrets."""


def secrets_of(session: CliSession, backend: Backend, *, create: bool = False) -> WebhookSecrets:
    return webhook_secrets(backend.store, keyring_for(session.url, os.environ, create=create))


def warn_of_local_keys(session: CliSession) -> None:
    """Sealing with a file of this machine is fine for one machine; say so where there may be more."""
    if not os.environ.get(KEKS_VARIABLE) and not session.url.startswith(("sqlite:", "libsql:")):
        note(
            f"euterpe: {KEKS_VARIABLE} is not set, so secrets are sealed with {key_file_of(session.url)} of this "
            "machine; other machines need the same two lines in their environment"
        )


@keys.command()
@click.option("--requester", required=True, metavar="NAME", help="The owner of the key.")
@click.option("--scope", required=True, type=NAMES, metavar="A,B", help="submit, read, worker, admin.")
@click.option("--expires", type=DURATION, metavar="DURATION", help="How long the key is valid; default: for ever.")
@json_option
@database_options
@click.pass_obj
@sql_only
def create(session: CliSession, requester: str, scope: tuple[str, ...], expires: int | None, as_json: bool) -> None:
    """Create an API key. With the first key of a requester, it also creates the webhook secret."""
    warn_of_local_keys(session)

    async def act(backend: Backend) -> CreatedKey:
        made = enrolment(backend.store, keyring_for(session.url, os.environ))
        return await made.create(requester, scope, new_secret(), expires)

    show_created(session.ask(act, create=True), as_json=as_json)


def show_created(created: CreatedKey, *, as_json: bool) -> None:
    if as_json:
        print_json({"key": created.key, "webhook_secret": created.webhook_secret, **key_document(created.record)})
        return
    print_line(f"key             {created.key}")
    if created.webhook_secret is not None:
        print_line(f"webhook secret  {created.webhook_secret}")
        note("Keep them now: they are not shown again.")
    else:
        note("Keep it now: it is not shown again. The requester's webhook secret stays as it is.")


@keys.command("list")
@click.option("--requester", metavar="NAME", help="Only of this requester.")
@json_option
@database_options
@click.pass_obj
@sql_only
def list_keys(session: CliSession, requester: str | None, as_json: bool) -> None:
    """List API keys, without their secret parts."""
    found = session.ask(lambda backend: api_keys(backend.store).list_keys(requester))
    if as_json:
        print_json({"keys": [key_document(record) for record in found]})
    elif not found:
        note("No keys.")
    else:
        print_table(
            ("prefix", "requester", "scopes", "created", "end"),
            [(k.prefix, k.requester_id, ",".join(k.scopes), _day(k.created_at), _end(k)) for k in found],
            flexible="requester",
        )


def _day(at_us: int | None) -> str:
    return (rfc3339(at_us) or "")[:10]


def _end(record: KeyRecord) -> str:
    if record.revoked_at is not None:
        return f"revoked {_day(record.revoked_at)}"
    return f"expires {_day(record.expires_at)}" if record.expires_at is not None else "-"


@keys.command()
@click.argument("prefix")
@click.option("--grace", type=DURATION, default=0, metavar="DURATION", help="How long the old key still works.")
@json_option
@database_options
@click.pass_obj
@sql_only
def rotate(session: CliSession, prefix: str, grace: int, as_json: bool) -> None:
    """Create a new key with the same scopes. The old key ends after the grace time."""
    wanted = _prefix(prefix)
    created = session.ask(lambda backend: api_keys(backend.store).rotate_key(wanted, grace))
    show_created(created, as_json=as_json)


@keys.command()
@click.argument("prefix")
@yes_option
@json_option
@database_options
@click.pass_obj
@sql_only
def revoke(session: CliSession, prefix: str, yes: bool, as_json: bool) -> None:
    """Revoke the key with this prefix."""
    wanted = _prefix(prefix)
    confirm(f"Revoke the key {wanted} for good?", yes=yes)
    record = session.ask(lambda backend: api_keys(backend.store).revoke_key(wanted))
    if as_json:
        print_json(key_document(record))
    else:
        print_line(f"{record.prefix}  revoked")


def _prefix(text: str) -> str:
    """A whole key, pasted, is as good as its prefix; its secret part goes no further."""
    return text.partition(".")[0]


@keys.group()
def secrets() -> None:
    """List, rotate and retire webhook secrets."""


@secrets.command("list")
@click.option("--requester", metavar="NAME", help="Only of this requester.")
@json_option
@database_options
@click.pass_obj
@sql_only
def list_secrets(session: CliSession, requester: str | None, as_json: bool) -> None:
    """List webhook secrets by id, without the secrets."""
    found = session.ask(lambda backend: secrets_of(session, backend).list_secrets(requester))
    if as_json:
        print_json({"secrets": [secret_document(record, active=active) for record, active in found]})
    elif not found:
        note("No webhook secrets.")
    else:
        print_table(
            ("id", "requester", "signs", "created", "kek"),
            [(r.id, r.requester_id, "yes" if a else "no", _day(r.created_at), r.kek_id) for r, a in found],
            flexible="requester",
        )


def secret_document(record: SecretRecord, *, active: bool) -> dict[str, Any]:
    return {
        "id": record.id,
        "requester": record.requester_id,
        "active": active,
        "kek_id": record.kek_id,
        "created_at": rfc3339(record.created_at),
        "retired_at": rfc3339(record.retired_at),
    }


@secrets.command("rotate")
@click.option("--requester", required=True, metavar="NAME", help="The owner of the secret.")
@click.option("--grace", type=DURATION, metavar="DURATION", help="How long the old one signs; default: until retired.")
@json_option
@database_options
@click.pass_obj
@sql_only
def rotate_secret(session: CliSession, requester: str, grace: int | None, as_json: bool) -> None:
    """Add a new webhook secret. The old secret signs too, until you retire it."""
    warn_of_local_keys(session)
    secret = new_secret()
    record = session.ask(
        lambda backend: secrets_of(session, backend, create=True).rotate(requester, secret, grace), create=True
    )
    if as_json:
        print_json({"webhook_secret": secret, **secret_document(record, active=True)})
    else:
        print_line(f"webhook secret  {secret}")
        note("Keep it now: it is not shown again.")


@secrets.command()
@click.argument("secret_id")
@yes_option
@json_option
@database_options
@click.pass_obj
@sql_only
def retire(session: CliSession, secret_id: str, yes: bool, as_json: bool) -> None:
    """Retire the webhook secret with this id."""
    confirm(f"Retire the webhook secret {secret_id} for good?", yes=yes)
    record = session.ask(lambda backend: secrets_of(session, backend).retire(secret_id))
    if as_json:
        print_json(secret_document(record, active=False))
    else:
        print_line(f"{record.id}  retired")
