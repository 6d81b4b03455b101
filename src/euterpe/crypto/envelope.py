"""Envelope encryption: AES-256-GCM under a fresh data key per blob, and that data key wrapped by a keyring.

Both layers are bound to a context (what the secret is for, and whose it is), so a blob copied to another row
does not open there. Layout of either layer: one version byte, a 12-byte nonce, the ciphertext with its tag.
"""

from __future__ import annotations

import secrets
import struct
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from euterpe.crypto.errors import MissingKek, SealBroken
from euterpe.crypto.keyring import PLAINTEXT_KEK_ID, KeyWrapper, PlaintextKeys, SealingKeys

ENVELOPE_VERSION: Final = 1
PLAINTEXT_VERSION: Final = 0

_KEY_BITS: Final = 256
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_AAD_LABEL: Final = "euterpe-sealing"


@dataclass(frozen=True, slots=True)
class SealContext:
    """What a secret is for and whose it is. It is not stored with the blob: whoever opens it must know it."""

    purpose: str
    parts: tuple[str, ...]

    def associated_data(self, layer: str, version: int) -> bytes:
        """An encoding that no other context, layer or version shares: each field is preceded by its
        length.
        """
        fields = [_AAD_LABEL, str(version), layer, self.purpose, *self.parts]
        encoded = [field.encode() for field in fields]
        return b"".join(struct.pack(">I", len(one)) + one for one in encoded)


def credentials_context(job_id: str, requester_id: str, credential_version: int) -> SealContext:
    """The context of a job's storage credentials, as the contract lists it."""
    return SealContext("storage-credentials", (job_id, requester_id, str(credential_version)))


@dataclass(frozen=True, slots=True, repr=False)
class Sealed:
    """The four values to store. The representation shows sizes only, for logs and test failures."""

    encrypted: bytes
    dek_wrapped: bytes
    kek_id: str
    encryption_version: int

    def __repr__(self) -> str:
        return (
            f"Sealed(<{len(self.encrypted)} bytes>, kek_id={self.kek_id!r}, "
            f"encryption_version={self.encryption_version})"
        )


def seal(plaintext: bytes, context: SealContext, keyring: SealingKeys) -> Sealed:
    """Encrypt under a fresh data key, wrapped by the keyring's active key."""
    if isinstance(keyring, PlaintextKeys):
        return Sealed(bytes([PLAINTEXT_VERSION]) + plaintext, b"", PLAINTEXT_KEK_ID, PLAINTEXT_VERSION)
    dek = AESGCM.generate_key(_KEY_BITS)
    nonce = secrets.token_bytes(_NONCE_BYTES)
    ciphertext = AESGCM(dek).encrypt(nonce, plaintext, context.associated_data("blob", ENVELOPE_VERSION))
    kek_id, wrapped = keyring.wrap(dek, context.associated_data("dek", ENVELOPE_VERSION))
    encrypted = bytes([ENVELOPE_VERSION]) + nonce + ciphertext
    return Sealed(encrypted, wrapped, kek_id, ENVELOPE_VERSION)


def unseal(sealed: Sealed, context: SealContext, keyring: SealingKeys) -> bytes:
    """The plaintext, or MissingKek (retry later) or SealBroken (it will not get better)."""
    if isinstance(keyring, PlaintextKeys):
        return _unseal_plaintext(sealed)
    encrypted = sealed.encrypted
    _check_envelope(sealed)
    dek = keyring.unwrap(sealed.kek_id, sealed.dek_wrapped, context.associated_data("dek", ENVELOPE_VERSION))
    nonce, ciphertext = encrypted[1 : 1 + _NONCE_BYTES], encrypted[1 + _NONCE_BYTES :]
    try:
        return AESGCM(dek).decrypt(nonce, ciphertext, context.associated_data("blob", ENVELOPE_VERSION))
    except (InvalidTag, ValueError):
        raise SealBroken from None


def rewrap(sealed: Sealed, context: SealContext, keyring: KeyWrapper) -> Sealed:
    """The same ciphertext with its data key wrapped by the active key. The caller stores it by
    compare-and-set.
    """
    _check_envelope(sealed)
    associated = context.associated_data("dek", ENVELOPE_VERSION)
    dek = keyring.unwrap(sealed.kek_id, sealed.dek_wrapped, associated)
    kek_id, wrapped = keyring.wrap(dek, associated)
    return Sealed(sealed.encrypted, wrapped, kek_id, sealed.encryption_version)


def _check_envelope(sealed: Sealed) -> None:
    # A real keyring never opens a plaintext blob: otherwise whoever can write to the database could plant
    # secrets.
    if (
        sealed.encryption_version != ENVELOPE_VERSION
        or sealed.encrypted[:1] != bytes([ENVELOPE_VERSION])
        or len(sealed.encrypted) < 1 + _NONCE_BYTES + _TAG_BYTES
    ):
        raise SealBroken


def _unseal_plaintext(sealed: Sealed) -> bytes:
    if sealed.encryption_version == ENVELOPE_VERSION:
        raise MissingKek(sealed.kek_id)
    if sealed.encryption_version != PLAINTEXT_VERSION or sealed.encrypted[:1] != bytes([PLAINTEXT_VERSION]):
        raise SealBroken
    return sealed.encrypted[1:]
