"""The token of a lease whose claim is on its row."""

from __future__ import annotations

import hashlib

from euterpe.model.job import JobRow


def token_of(secret: bytes, job: JobRow) -> str:
    """A lease's own token, which nobody can tell from those of its neighbours: the secret of their claim is kept by
    nobody. `leased_by_token.sql` makes the same one, to store its hash."""
    named = bytes.fromhex(job.id.replace("-", "")) + job.claim_version.to_bytes(8, "big")
    return hashlib.sha256(secret + named).hexdigest()
