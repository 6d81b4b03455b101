"""The operator's key-encryption keys: one active key that wraps, older ones that can still unwrap.

They come from the environment, or from a key file that the embedded default makes for itself on its first
start. Both hold the same two lines, so that moving from one to the other is copying:

    EUTERPE_KEKS=2026a:<base64 of 32 bytes>,2026b:<base64 of 32 bytes>
    EUTERPE_ACTIVE_KEK=2026b
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from euterpe.crypto.errors import InvalidKeyring, MissingKek, SealBroken
from euterpe.crypto.key_file import ensure_key_file, read_key_file

KEKS_VARIABLE: Final = "EUTERPE_KEKS"
ACTIVE_KEK_VARIABLE: Final = "EUTERPE_ACTIVE_KEK"
ENVIRONMENT_VARIABLE: Final = "EUTERPE_ENV"
MODE_VARIABLE: Final = "EUTERPE_SEALING"
PLAINTEXT_KEK_ID: Final = "plaintext"

_WRAP_VERSION: Final = 1
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_KEK_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_PLAINTEXT_ENVIRONMENTS: Final = frozenset({"dev", "test"})


class KeyWrapper(Protocol):
    """Wraps data keys. The keyring below does it with keys in memory; a cloud's key service can do it too."""

    @property
    def active_kek_id(self) -> str:
        """The key that new wraps use."""

    def wrap(self, dek: bytes, associated_data: bytes) -> tuple[str, bytes]:
        """The active key's id, and the data key wrapped by it, bound to that id and to the associated
        data.
        """

    def unwrap(self, kek_id: str, wrapped: bytes, associated_data: bytes) -> bytes:
        """The data key. Raises MissingKek or SealBroken."""


class Keyring:
    """Keys in memory. Only cipher objects are kept, and no representation shows anything but ids."""

    def __init__(self, keys: Mapping[str, bytes], active_kek_id: str) -> None:
        _check_keys(keys, active_kek_id)
        self._ciphers = {kek_id: AESGCM(key) for kek_id, key in keys.items()}
        self._active_kek_id = active_kek_id

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Self:
        """The keys of EUTERPE_KEKS, wrapping with EUTERPE_ACTIVE_KEK (which a single key may leave out)."""
        text = env.get(KEKS_VARIABLE, "").strip()
        if not text:
            raise InvalidKeyring(f"{KEKS_VARIABLE}: is not set; give id:base64[,id:base64...]")
        keys = _parse_keks(text)
        active = env.get(ACTIVE_KEK_VARIABLE, "").strip()
        if not active:
            if len(keys) > 1:
                raise InvalidKeyring(f"{ACTIVE_KEK_VARIABLE}: is not set; say which of {', '.join(keys)} wraps")
            active = next(iter(keys))
        return cls(keys, active)

    @classmethod
    def from_key_file(cls, path: Path, *, create: bool = True) -> Self:
        """The keys of a file that only its owner can read. With `create`, a missing file is made with a new
        key; of many processes that start at once, one makes it and all read the same.
        """
        if create:
            kek_id = f"k{secrets.token_hex(4)}"
            key = base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode("ascii")
            ensure_key_file(path, f"{KEKS_VARIABLE}={kek_id}:{key}\n{ACTIVE_KEK_VARIABLE}={kek_id}\n")
        try:
            return cls.from_environment(read_key_file(path))
        except InvalidKeyring as error:
            raise InvalidKeyring(f"{path}: {error}") from None

    @property
    def active_kek_id(self) -> str:
        return self._active_kek_id

    @property
    def kek_ids(self) -> frozenset[str]:
        return frozenset(self._ciphers)

    def wrap(self, dek: bytes, associated_data: bytes) -> tuple[str, bytes]:
        kek_id = self._active_kek_id
        nonce = secrets.token_bytes(_NONCE_BYTES)
        bound = _bind(kek_id, associated_data)
        return kek_id, bytes([_WRAP_VERSION]) + nonce + self._ciphers[kek_id].encrypt(nonce, dek, bound)

    def unwrap(self, kek_id: str, wrapped: bytes, associated_data: bytes) -> bytes:
        cipher = self._ciphers.get(kek_id)
        if cipher is None:
            raise MissingKek(kek_id)
        if wrapped[:1] != bytes([_WRAP_VERSION]):
            raise SealBroken
        nonce, ciphertext = wrapped[1 : 1 + _NONCE_BYTES], wrapped[1 + _NONCE_BYTES :]
        try:
            return cipher.decrypt(nonce, ciphertext, _bind(kek_id, associated_data))
        except (InvalidTag, ValueError):
            raise SealBroken from None

    def __repr__(self) -> str:
        return f"Keyring(ids={sorted(self._ciphers)}, active={self._active_kek_id!r})"


class PlaintextKeys:
    """No encryption at all, for looking into a development database. Refused everywhere else."""

    def __init__(self, env: Mapping[str, str]) -> None:
        environment = env.get(ENVIRONMENT_VARIABLE, "")
        if environment not in _PLAINTEXT_ENVIRONMENTS:
            raise InvalidKeyring(
                f"{MODE_VARIABLE}: plaintext is only for {ENVIRONMENT_VARIABLE}=dev or test "
                f"(here it is {environment!r}); set {KEKS_VARIABLE} instead"
            )


SealingKeys = KeyWrapper | PlaintextKeys


def load_keyring(env: Mapping[str, str], *, key_file: Path | None = None) -> Keyring | PlaintextKeys:
    """What a starting process calls: plaintext if asked for and allowed, else EUTERPE_KEKS, else the key
    file.

    Raises InvalidKeyring when there is nothing to seal with: refuse to start then.
    """
    mode = env.get(MODE_VARIABLE, "").strip()
    if mode == "plaintext":
        return PlaintextKeys(env)
    if mode not in ("", "envelope"):
        raise InvalidKeyring(f"{MODE_VARIABLE}: must be envelope or plaintext, got {mode!r}")
    if env.get(KEKS_VARIABLE, "").strip() or key_file is None:
        return Keyring.from_environment(env)
    return Keyring.from_key_file(key_file)


def _bind(kek_id: str, associated_data: bytes) -> bytes:
    encoded = kek_id.encode()
    return len(encoded).to_bytes(4, "big") + encoded + associated_data


def _parse_keks(text: str) -> dict[str, bytes]:
    keys: dict[str, bytes] = {}
    for position, entry in enumerate(text.split(","), start=1):
        kek_id, separator, encoded = entry.strip().partition(":")
        # Without a colon the whole entry may be key material, so it is named by its position alone.
        if not separator or not _KEK_ID.fullmatch(kek_id):
            raise InvalidKeyring(
                f"{KEKS_VARIABLE}: entry {position} is not id:base64 (an id has letters, digits, . _ - only)"
            )
        if kek_id in keys:
            raise InvalidKeyring(f"{KEKS_VARIABLE}: the id {kek_id!r} appears twice")
        try:
            keys[kek_id] = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise InvalidKeyring(f"{KEKS_VARIABLE}: the key of {kek_id!r} is not standard base64") from None
    return keys


def _check_keys(keys: Mapping[str, bytes], active_kek_id: str) -> None:
    owner_of: dict[bytes, str] = {}
    for kek_id, key in keys.items():
        if kek_id == PLAINTEXT_KEK_ID:
            raise InvalidKeyring(f"{KEKS_VARIABLE}: the id {kek_id!r} is reserved")
        if len(key) != _KEY_BYTES:
            raise InvalidKeyring(
                f"{KEKS_VARIABLE}: the key of {kek_id!r} has {len(key)} bytes, it needs {_KEY_BYTES} "
                "(openssl rand -base64 32 makes one)"
            )
        if key in owner_of:
            raise InvalidKeyring(
                f"{KEKS_VARIABLE}: {owner_of[key]!r} and {kek_id!r} have the same key; rotate to a new one"
            )
        owner_of[key] = kek_id
    if active_kek_id not in keys:
        raise InvalidKeyring(f"{ACTIVE_KEK_VARIABLE}: {active_kek_id!r} is not among the keys ({', '.join(keys)})")
