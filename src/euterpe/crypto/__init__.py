"""Secrets at rest: each blob under a key of its own, that key wrapped by one of the operator's keys.

keyring = load_keyring(os.environ, key_file=Path(".euterpe/keys"))
sealed = seal(b"secret", SealContext("webhook-secret", (requester_id, secret_id)), keyring)
plain = unseal(sealed, SealContext("webhook-secret", (requester_id, secret_id)), keyring)
"""

from __future__ import annotations

from euterpe.crypto.envelope import SealContext, Sealed, credentials_context, rewrap, seal, unseal
from euterpe.crypto.errors import InvalidKeyring, MissingKek, SealBroken, SealingError
from euterpe.crypto.keyring import Keyring, KeyWrapper, PlaintextKeys, SealingKeys, load_keyring

__all__ = [
    "InvalidKeyring",
    "KeyWrapper",
    "Keyring",
    "MissingKek",
    "PlaintextKeys",
    "SealBroken",
    "SealContext",
    "Sealed",
    "SealingError",
    "SealingKeys",
    "credentials_context",
    "load_keyring",
    "rewrap",
    "seal",
    "unseal",
]
