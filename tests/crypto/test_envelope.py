"""The envelope: what goes in comes out, in its own context only, and any change at all is noticed."""

from __future__ import annotations

import base64
import dataclasses
import secrets

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from euterpe.crypto import (
    Keyring,
    MissingKek,
    PlaintextKeys,
    SealBroken,
    SealContext,
    Sealed,
    credentials_context,
    rewrap,
    seal,
    unseal,
)

OLD_KEY = secrets.token_bytes(32)
NEW_KEY = secrets.token_bytes(32)
OLD = Keyring({"old": OLD_KEY}, "old")
BOTH = Keyring({"old": OLD_KEY, "new": NEW_KEY}, "new")
CONTEXT = credentials_context("job-1", "vesta", 3)

contexts = st.builds(
    SealContext,
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.lists(st.text(st.characters(codec="utf-8"), max_size=12), max_size=4).map(tuple),
)


def _with(sealed: Sealed, column: str, value: bytes) -> Sealed:
    if column == "encrypted":
        return dataclasses.replace(sealed, encrypted=value)
    return dataclasses.replace(sealed, dek_wrapped=value)


@given(plaintext=st.binary(max_size=2000), context=contexts)
def test_what_was_sealed_opens_again(plaintext: bytes, context: SealContext) -> None:
    assert unseal(seal(plaintext, context, OLD), context, OLD) == plaintext


@given(plaintext=st.binary(max_size=200), mine=contexts, other=contexts)
def test_a_blob_opens_in_no_other_context(plaintext: bytes, mine: SealContext, other: SealContext) -> None:
    sealed = seal(plaintext, mine, OLD)
    if mine == other:
        assert unseal(sealed, other, OLD) == plaintext
        return
    with pytest.raises(SealBroken):
        unseal(sealed, other, OLD)


@given(st.lists(contexts, min_size=2, max_size=8, unique=True))
def test_no_two_contexts_share_an_encoding(many: list[SealContext]) -> None:
    encodings = {context.associated_data(layer, 1) for context in many for layer in ("blob", "dek")}
    assert len(encodings) == 2 * len(many)


@pytest.mark.parametrize(
    "other",
    [
        credentials_context("job-2", "vesta", 3),
        credentials_context("job-1", "sona", 3),
        credentials_context("job-1", "vesta", 4),
        SealContext("webhook-secret", ("job-1", "vesta", "3")),
        SealContext("storage-credentials", ("job-1vesta", "", "3")),
    ],
)
def test_credentials_are_bound_to_job_requester_and_version(other: SealContext) -> None:
    with pytest.raises(SealBroken):
        unseal(seal(b"key", CONTEXT, OLD), other, OLD)


@pytest.mark.parametrize("column", ["encrypted", "dek_wrapped"])
def test_every_flipped_bit_is_noticed(column: str) -> None:
    sealed = seal(b"a secret of some bytes", CONTEXT, OLD)
    original: bytes = getattr(sealed, column)
    for bit in range(len(original) * 8):
        changed = bytearray(original)
        changed[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(SealBroken):
            unseal(_with(sealed, column, bytes(changed)), CONTEXT, OLD)


@pytest.mark.parametrize("column", ["encrypted", "dek_wrapped"])
@pytest.mark.parametrize("keep", [0, 1, 5, 12, 13, 28, -1])
def test_a_truncated_blob_is_noticed(column: str, keep: int) -> None:
    sealed = seal(b"a secret of some bytes", CONTEXT, OLD)
    shorter = getattr(sealed, column)[:keep]
    with pytest.raises(SealBroken):
        unseal(_with(sealed, column, shorter), CONTEXT, OLD)


def test_parts_of_two_blobs_of_one_context_do_not_mix() -> None:
    one, two = seal(b"one", CONTEXT, OLD), seal(b"two", CONTEXT, OLD)
    with pytest.raises(SealBroken):
        unseal(dataclasses.replace(one, dek_wrapped=two.dek_wrapped), CONTEXT, OLD)


def test_each_blob_has_its_own_key_and_nonces() -> None:
    many = [seal(b"same", CONTEXT, OLD) for _ in range(200)]
    assert len({sealed.encrypted[1:13] for sealed in many}) == 200
    assert len({sealed.dek_wrapped[1:13] for sealed in many}) == 200
    unwrapped = {OLD.unwrap("old", one.dek_wrapped, CONTEXT.associated_data("dek", 1)) for one in many}
    assert len(unwrapped) == 200


def test_the_layout_is_version_byte_nonce_ciphertext() -> None:
    sealed = seal(b"plain", CONTEXT, OLD)
    dek = OLD.unwrap("old", sealed.dek_wrapped, CONTEXT.associated_data("dek", 1))
    assert (sealed.encrypted[0], sealed.encryption_version, sealed.kek_id) == (1, 1, "old")
    assert len(dek) == 32
    by_hand = AESGCM(dek).decrypt(sealed.encrypted[1:13], sealed.encrypted[13:], CONTEXT.associated_data("blob", 1))
    assert by_hand == b"plain"


def test_rewrapping_touches_only_the_wrap_and_the_id() -> None:
    before = seal(b"plain", CONTEXT, OLD)
    after = rewrap(before, CONTEXT, BOTH)
    assert after.encrypted == before.encrypted
    assert after.encryption_version == before.encryption_version
    assert after.dek_wrapped != before.dek_wrapped
    assert after.kek_id == "new"
    assert unseal(after, CONTEXT, Keyring({"new": NEW_KEY}, "new")) == b"plain"


def test_rewrapping_in_another_context_is_refused() -> None:
    with pytest.raises(SealBroken):
        rewrap(seal(b"plain", CONTEXT, OLD), credentials_context("job-2", "vesta", 3), BOTH)


def test_old_blobs_open_while_both_keys_are_there_and_say_which_key_is_missing_later() -> None:
    sealed = seal(b"plain", CONTEXT, OLD)
    assert unseal(sealed, CONTEXT, BOTH) == b"plain"
    with pytest.raises(MissingKek) as caught:
        unseal(sealed, CONTEXT, Keyring({"new": NEW_KEY}, "new"))
    assert caught.value.kek_id == "old"


def test_the_kek_id_is_bound_into_the_wrap() -> None:
    sealed = seal(b"plain", CONTEXT, OLD)
    same_key_other_name = Keyring({"renamed": OLD_KEY}, "renamed")
    with pytest.raises(SealBroken):
        unseal(dataclasses.replace(sealed, kek_id="renamed"), CONTEXT, same_key_other_name)


def test_the_wrong_key_under_the_right_id_is_a_broken_seal() -> None:
    with pytest.raises(SealBroken):
        unseal(seal(b"plain", CONTEXT, OLD), CONTEXT, Keyring({"old": NEW_KEY}, "old"))


def test_a_real_keyring_never_opens_a_plaintext_blob() -> None:
    planted = seal(b"planted by someone with database access", CONTEXT, PlaintextKeys({"EUTERPE_ENV": "dev"}))
    for forged in (
        planted,
        dataclasses.replace(planted, encryption_version=1, kek_id="old"),
        Sealed(b"\x01" + planted.encrypted[1:], b"", "old", 1),
    ):
        with pytest.raises(SealBroken):
            unseal(forged, CONTEXT, OLD)


def test_plaintext_mode_reads_its_own_and_asks_for_the_key_of_sealed_ones() -> None:
    plain_keys = PlaintextKeys({"EUTERPE_ENV": "test"})
    assert unseal(seal(b"plain", CONTEXT, plain_keys), CONTEXT, plain_keys) == b"plain"
    with pytest.raises(MissingKek):
        unseal(seal(b"plain", CONTEXT, OLD), CONTEXT, plain_keys)


@given(st.binary(min_size=8, max_size=64))
def test_no_representation_or_error_shows_plaintext_or_keys(plaintext: bytes) -> None:
    for keys in (OLD, PlaintextKeys({"EUTERPE_ENV": "test"})):
        sealed = seal(plaintext, CONTEXT, keys)
        shown = f"{sealed!r} {sealed} {keys!r} {keys} {[sealed]} {vars(keys)!r}"
        try:
            unseal(dataclasses.replace(sealed, encrypted=sealed.encrypted[:-1] + b"?"), CONTEXT, OLD)
        except SealBroken as error:
            shown += f"{error!r} {error} {error.__cause__!r} {error.__context__!r}"
        for hidden in (plaintext, OLD_KEY, NEW_KEY):
            for form in (repr(hidden)[2:-1], hidden.hex(), base64.b64encode(hidden).decode()):
                assert form not in shown
