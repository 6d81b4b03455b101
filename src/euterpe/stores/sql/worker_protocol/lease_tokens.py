"""Lease tokens of HTTP workers: signatures over a claim. Nothing of a token is stored with its job.

The secret lies in the database, where all control planes find it. Control planes that have only key files share no KEK,
and encryption would add nothing: whoever can read the secret can write the jobs themselves. To rotate it, insert a
newer one, and delete the old one a minute and the longest lease later; both are valid until then.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Final

from euterpe.model.claims.worker_reports import ShownLease
from euterpe.model.job import Claim, Lease
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.program import Program, one

SECRET_BYTES: Final = 32
LOAD_AGAIN_S: Final = 1.0
"""How old the known secrets must be to be read anew for a token that none of them made: a newer one may be there."""
SIGN_WITH_S: Final = 60.0
"""How old they may be to sign with."""


class LeaseTokens:
    def __init__(self, engine: Engine, clock: Callable[[], float] = monotonic) -> None:
        self._engine = engine
        self._clock = clock
        self._signers: list[Signer] = []
        self._loaded_at = 0.0

    async def open(self) -> None:
        """Have a secret to sign with. Asked for before a claim, not after: what is claimed must not be lost for it."""
        if not self._signers or self._clock() - self._loaded_at >= SIGN_WITH_S:
            await self._load()

    async def _load(self) -> None:
        self._loaded_at = self._clock()
        self._signers = [Signer(secret) for secret in await self._engine.write(read_secrets)]

    def sign(self, claims: Iterable[Claim]) -> list[Claim]:
        """The same claims with tokens."""
        token_of = self._signers[0].token_of
        return [
            Claim(job, Lease(job.id, job.claim_version, job.lease_expires_at or 0, token))
            for job in (claim.job for claim in claims)
            for token in (token_of(job.id, job.claim_version, job.worker_id or ""),)
        ]

    async def check(self, leases: Sequence[ShownLease]) -> list[bool]:
        """Whether each token is that of the claim and worker that it is shown for."""
        if not self._signers:
            await self._load()
        found = [self._is_valid(lease) for lease in leases]
        if not all(found) and self._clock() - self._loaded_at >= LOAD_AGAIN_S:
            await self._load()
            found = [self._is_valid(lease) for lease in leases]
        return found

    def _is_valid(self, lease: ShownLease) -> bool:
        shown = lease.token.encode(errors="replace")
        named = (lease.job_id, lease.claim_version, lease.worker_id)
        return any(hmac.compare_digest(signer.token_of(*named).encode(), shown) for signer in self._signers)


class Signer:
    """HMAC-SHA256 with one secret."""

    def __init__(self, secret: bytes) -> None:
        self._mac = hmac.new(secret, digestmod="sha256")
        """A copy of it costs a third of a new one."""

    def token_of(self, job_id: str, claim_version: int, worker_id: str) -> str:
        """The version in front of the signature: a heartbeat may name no attempt."""
        mac = self._mac.copy()
        mac.update(f"{job_id}:{claim_version}:{worker_id}".encode(errors="surrogatepass"))
        return f"{claim_version}.{mac.hexdigest()}"


def read_secrets() -> Program[list[bytes]]:
    """The newest first. A database without one gets one; another control plane may be faster, then it is that one's."""
    rows = yield one("token_secrets")
    if not rows:
        yield one("insert_token_secret", secret=secrets.token_bytes(SECRET_BYTES))
        rows = yield one("token_secrets")
    return [bytes(row[0]) for row in rows]
