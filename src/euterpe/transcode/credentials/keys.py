"""Which keys seal the credentials of a database: KMS where one is named, else the keyring of webhook secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from euterpe.backends.keychain import key_file_of, keyring_for
from euterpe.crypto import InvalidKeyring, Keyring, KeyWrapper, MissingKek, PlaintextKeys
from euterpe.crypto.keyring import KEKS_VARIABLE
from euterpe.crypto.keyring import MODE_VARIABLE as SEALING_VARIABLE
from euterpe.transcode.credentials.kms import KMS_PREFIX, KmsKeys

KMS_VARIABLE: Final = "EUTERPE_KMS_KEY"
MODE_VARIABLE: Final = "EUTERPE_KMS_MODE"


class KmsAndKeyring:
    """Both open what they wrapped, so that moving from one to the other is a rewrap; `active` wraps what is new."""

    def __init__(self, kms: KmsKeys, keyring: Keyring | None, active: KeyWrapper) -> None:
        self._kms = kms
        self._keyring = keyring
        self._active = active

    @property
    def active_kek_id(self) -> str:
        return self._active.active_kek_id

    @property
    def kek_ids(self) -> frozenset[str]:
        ids = frozenset() if self._keyring is None else self._keyring.kek_ids
        return ids | {self._kms.active_kek_id}

    def wrap(self, dek: bytes, associated_data: bytes) -> tuple[str, bytes]:
        return self._active.wrap(dek, associated_data)

    def unwrap(self, kek_id: str, wrapped: bytes, associated_data: bytes) -> bytes:
        if kek_id.startswith(KMS_PREFIX):
            return self._kms.unwrap(kek_id, wrapped, associated_data)
        if self._keyring is None:
            raise MissingKek(kek_id)
        return self._keyring.unwrap(kek_id, wrapped, associated_data)

    def __repr__(self) -> str:
        return f"KmsAndKeyring({self._kms!r}, {self._keyring!r}, active={self.active_kek_id!r})"


def credential_keys(
    url: str, environ: Mapping[str, str], *, create: bool = True
) -> Keyring | KmsAndKeyring | PlaintextKeys:
    """What seals credentials here. Raises InvalidKeyring: refuse to start then.

    EUTERPE_KMS_KEY: KMS wraps, and the keyring opens what it wrapped before. EUTERPE_KMS_MODE=open turns that round,
    for the way back.
    """
    if not environ.get(KMS_VARIABLE):
        return keyring_for(url, environ, create=create)
    mode = environ.get(MODE_VARIABLE, "") or "wrap"
    if mode not in ("wrap", "open"):
        raise InvalidKeyring(f"{MODE_VARIABLE}: must be wrap or open, got {mode!r}")
    kms = KmsKeys.from_environment(environ)
    if mode == "wrap" and not (
        environ.get(KEKS_VARIABLE) or environ.get(SEALING_VARIABLE) or key_file_of(url).exists()
    ):
        return KmsAndKeyring(kms, None, kms)
    keyring = keyring_for(url, environ, create=False)
    if isinstance(keyring, PlaintextKeys):
        raise InvalidKeyring(f"{KMS_VARIABLE}: is set, but EUTERPE_SEALING asks for plaintext; choose one")
    return KmsAndKeyring(kms, keyring, kms if mode == "wrap" else keyring)
