"""API keys, webhook secrets and the keys that seal them."""

from __future__ import annotations

import base64
import secrets

from tests.cli.commands import Shell


def test_a_key_is_shown_once_with_the_requesters_webhook_secret(shell: Shell) -> None:
    created = shell.json("keys", "create", "--requester", "vesta", "--scope", "submit,read")
    assert created["key"].startswith(f"{created['prefix']}.")
    assert created["webhook_secret"].startswith("whsec_")
    assert created["scopes"] == ["submit", "read"]

    second = shell.json("keys", "create", "--requester", "vesta", "--scope", "worker", "--expires", "90d")
    assert second["webhook_secret"] is None  # it has one, which was shown with the first key
    assert second["expires_at"] is not None

    listing = shell.ok("keys", "list")
    assert created["prefix"] in listing
    assert created["key"].partition(".")[2] not in listing
    assert {key["prefix"] for key in shell.json("keys", "list")["keys"]} == {created["prefix"], second["prefix"]}

    assert shell.json("keys", "revoke", created["key"], "--yes")["revoked_at"] is not None
    rotated = shell.json("keys", "rotate", second["prefix"], "--grace", "1h")
    assert rotated["scopes"] == ["worker"]


def test_bad_scopes_requesters_and_prefixes_are_refused(sqlite_shell: Shell) -> None:
    shell = sqlite_shell
    shell.ok("migrate")
    assert "'fly' is not one of" in shell.refused("keys", "create", "--requester", "v", "--scope", "fly", code=1)
    assert "requester" in shell.refused("keys", "create", "--requester", "a b", "--scope", "read", code=1)
    assert "no key has the prefix" in shell.refused("keys", "revoke", "ek_nothing", "--yes", code=1)
    assert "add --yes" in shell.refused("keys", "revoke", "ek_nothing", code=2)
    assert shell.json("keys", "list") == {"keys": []}


def test_two_webhook_secrets_sign_while_one_is_rotated(sqlite_shell: Shell) -> None:
    shell = sqlite_shell
    shell.ok("keys", "create", "--requester", "vesta", "--scope", "submit")
    rotated = shell.json("keys", "secrets", "rotate", "--requester", "vesta")
    assert rotated["webhook_secret"].startswith("whsec_")
    old, new = shell.json("keys", "secrets", "list", "--requester", "vesta")["secrets"]
    assert (old["active"], new["active"], new["id"]) == (True, True, rotated["id"])
    assert old["id"] in shell.refused("keys", "secrets", "rotate", "--requester", "vesta", code=1)
    assert shell.json("keys", "secrets", "retire", old["id"], "--yes")["active"] is False
    assert [s["active"] for s in shell.json("keys", "secrets", "list")["secrets"]] == [False, True]


def test_secrets_are_moved_to_a_new_kek_and_a_missing_one_is_named(sqlite_shell: Shell) -> None:
    shell = sqlite_shell
    old, new = (base64.b64encode(secrets.token_bytes(32)).decode() for _ in range(2))
    before = {"EUTERPE_KEKS": f"k1:{old}"}
    both = {"EUTERPE_KEKS": f"k1:{old},k2:{new}", "EUTERPE_ACTIVE_KEK": "k2"}
    after = {"EUTERPE_KEKS": f"k2:{new}"}
    shell.ok("keys", "create", "--requester", "vesta", "--scope", "submit", **before)

    missing = {row["kek_id"]: row for row in shell.json("kek", "status", **after)["keks"]}
    assert (missing["k1"]["here"], missing["k1"]["secrets"]) == (False, 1)
    assert "'k1' is not in the keyring" in shell.refused("kek", "rewrap", code=1, **after)

    rewrapped = {"rewrapped": 1, "active_kek_id": "k2", "credentials": {"rewrapped": 0, "active_kek_id": "k2"}}
    assert shell.json("kek", "rewrap", **both) == rewrapped
    assert shell.json("kek", "rewrap", **both)["rewrapped"] == 0
    assert shell.json("kek", "status", **after)["keks"] == [
        {"kek_id": "k2", "here": True, "active": True, "secrets": 1, "credentials": 0}
    ]


def test_looking_at_keks_makes_none(sqlite_shell: Shell) -> None:
    shell = sqlite_shell
    shell.ok("migrate")
    assert "EUTERPE_KEKS is not set" in shell.refused("kek", "status", code=1)
    assert not list(shell.folder.rglob("*.keks"))
