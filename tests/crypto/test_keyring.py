"""Where the keys come from: the environment, or a file that the first start makes for its owner alone."""

from __future__ import annotations

import base64
import multiprocessing
import os
import secrets
import stat
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from euterpe.crypto import InvalidKeyring, Keyring, PlaintextKeys, SealContext, Sealed, load_keyring, seal, unseal

CONTEXT = SealContext("test", ("a",))
KEY = base64.b64encode(bytes(range(32))).decode()
OTHER_KEY = base64.b64encode(bytes(range(1, 33))).decode()


def test_the_environment_gives_keys_and_the_active_one() -> None:
    keyring = Keyring.from_environment({"EUTERPE_KEKS": f"a:{KEY}, b:{OTHER_KEY}", "EUTERPE_ACTIVE_KEK": "b"})
    assert keyring.kek_ids == {"a", "b"}
    assert keyring.active_kek_id == "b"
    assert seal(b"x", CONTEXT, keyring).kek_id == "b"


def test_a_single_key_is_active_without_saying_so() -> None:
    assert Keyring.from_environment({"EUTERPE_KEKS": f"only:{KEY}"}).active_kek_id == "only"


@pytest.mark.parametrize(
    ("keks", "active", "named"),
    [
        ("", "", "EUTERPE_KEKS"),
        ("   ", "", "EUTERPE_KEKS"),
        (KEY, "", "entry 1"),
        (f"a:{KEY},{OTHER_KEY}", "a", "entry 2"),
        (f"a:{KEY},", "a", "entry 2"),
        (f"a b:{KEY}", "", "entry 1"),
        (f":{KEY}", "", "entry 1"),
        (f"{KEY}:a", "", "entry 1"),
        ("a:not base64!", "", "'a'"),
        (f"a:{KEY[:-4]}", "", "'a'"),
        (f"a:{base64.b64encode(bytes(16)).decode()}", "", "16 bytes"),
        (f"a:{base64.b64encode(bytes(33)).decode()}", "", "33 bytes"),
        (f"a:{KEY},a:{OTHER_KEY}", "a", "'a' appears twice"),
        (f"a:{KEY},b:{KEY}", "a", "'a' and 'b'"),
        (f"a:{KEY},b:{OTHER_KEY}", "", "EUTERPE_ACTIVE_KEK"),
        (f"a:{KEY}", "c", "'c'"),
        (f"plaintext:{KEY}", "", "reserved"),
    ],
)
def test_a_wrong_keyring_names_what_is_wrong_and_never_a_key(keks: str, active: str, named: str) -> None:
    with pytest.raises(InvalidKeyring) as caught:
        Keyring.from_environment({"EUTERPE_KEKS": keks, "EUTERPE_ACTIVE_KEK": active})
    shown = f"{caught.value} {caught.value!r} {caught.value.__cause__!r}"
    assert named in shown
    for key in (KEY, OTHER_KEY, KEY[:12], OTHER_KEY[:12]):
        assert key not in shown


def test_the_first_start_makes_a_key_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    path = tmp_path / "state" / "keys"
    sealed = seal(b"x", CONTEXT, Keyring.from_key_file(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert unseal(sealed, CONTEXT, Keyring.from_key_file(path)) == b"x"
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["keys"]


def test_a_key_file_survives_a_permissive_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Keyring.from_key_file(tmp_path / "keys")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o600


def test_the_lines_of_a_key_file_are_those_of_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    from_file = Keyring.from_key_file(path)
    env = dict(line.split("=", 1) for line in path.read_text().splitlines())
    assert unseal(seal(b"x", CONTEXT, from_file), CONTEXT, Keyring.from_environment(env)) == b"x"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o602])
def test_a_key_file_that_others_can_touch_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "keys"
    Keyring.from_key_file(path)
    path.chmod(mode)
    with pytest.raises(InvalidKeyring, match="chmod 600") as caught:
        Keyring.from_key_file(path)
    assert str(path) in str(caught.value)


def test_a_missing_key_file_is_an_error_when_it_must_exist(tmp_path: Path) -> None:
    with pytest.raises(InvalidKeyring, match="could not be read"):
        Keyring.from_key_file(tmp_path / "keys", create=False)
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"EUTERPE_KEKS=\n", b"nonsense", b"EUTERPE_KEKS=a:short\n"])
def test_a_damaged_key_file_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "keys"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(InvalidKeyring):
        Keyring.from_key_file(path)
    assert path.read_bytes() == content


def test_a_place_that_cannot_hold_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidKeyring, match="keys"):
        Keyring.from_key_file(tmp_path / "file" / "keys")


def _open_and_seal(path: Path, start: Barrier, answers: multiprocessing.Queue[Sealed]) -> None:
    start.wait(30)
    answers.put(seal(secrets.token_bytes(8), CONTEXT, Keyring.from_key_file(path)))


def test_many_processes_starting_at_once_share_one_key(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    forked = multiprocessing.get_context("fork")
    start = forked.Barrier(8)
    answers: multiprocessing.Queue[Sealed] = forked.Queue()
    starters = [forked.Process(target=_open_and_seal, args=(path, start, answers)) for _ in range(8)]
    for starter in starters:
        starter.start()
    sealed = [answers.get(timeout=30) for _ in starters]
    for starter in starters:
        starter.join(30)
    keyring = Keyring.from_key_file(path, create=False)
    for one in sealed:
        assert len(unseal(one, CONTEXT, keyring)) == 8
    assert [entry.name for entry in tmp_path.iterdir()] == ["keys"]


@pytest.mark.parametrize("environment", ["dev", "test"])
def test_plaintext_is_there_where_asked_for_in_development(environment: str) -> None:
    keys = load_keyring({"EUTERPE_SEALING": "plaintext", "EUTERPE_ENV": environment})
    assert isinstance(keys, PlaintextKeys)


@pytest.mark.parametrize("environment", ["", "prod", "production", "staging", "Dev", "development"])
def test_plaintext_is_refused_everywhere_else(environment: str, tmp_path: Path) -> None:
    env = {"EUTERPE_SEALING": "plaintext", "EUTERPE_ENV": environment, "EUTERPE_KEKS": f"a:{KEY}"}
    with pytest.raises(InvalidKeyring, match="plaintext"):
        load_keyring(env, key_file=tmp_path / "keys")


def test_development_alone_does_not_mean_plaintext(tmp_path: Path) -> None:
    assert isinstance(load_keyring({"EUTERPE_ENV": "dev"}, key_file=tmp_path / "keys"), Keyring)


def test_the_environment_wins_over_the_key_file(tmp_path: Path) -> None:
    keyring = load_keyring({"EUTERPE_KEKS": f"a:{KEY}"}, key_file=tmp_path / "keys")
    assert isinstance(keyring, Keyring)
    assert keyring.kek_ids == {"a"}
    assert not (tmp_path / "keys").exists()


def test_nothing_to_seal_with_means_no_start() -> None:
    with pytest.raises(InvalidKeyring, match="EUTERPE_KEKS"):
        load_keyring({})


def test_an_unknown_mode_is_named() -> None:
    with pytest.raises(InvalidKeyring, match="'off'"):
        load_keyring({"EUTERPE_SEALING": "off", "EUTERPE_ENV": "dev"})
