"""What can go wrong with sealed secrets. No message ever repeats key material, plaintext or ciphertext.

SealingError
├── InvalidKeyring   the operator's keys are wrong or missing: refuse to start
├── MissingKek       the key that wrapped this blob is not here (now): retry, it may come back
└── SealBroken       the blob does not open: changed, moved to another row, or wrapped by other key material
"""

from __future__ import annotations

from euterpe.model.errors import EuterpeError


class SealingError(EuterpeError):
    """A secret could not be sealed or opened."""


class InvalidKeyring(SealingError):
    """The operator's keys are wrong or missing. The message names which one and why."""


class MissingKek(SealingError):
    """The key that wrapped this blob is not in the keyring. Retryable: the operator may bring it back."""

    def __init__(self, kek_id: str) -> None:
        super().__init__(f"kek {kek_id!r} is not in the keyring; add it to EUTERPE_KEKS (or to the key file) again")
        self.kek_id = kek_id


class SealBroken(SealingError):
    """The blob does not open in this context. Deliberately says no more than that."""

    def __init__(self) -> None:
        super().__init__("the sealed secret does not open: it was changed, or belongs to another context or key")
