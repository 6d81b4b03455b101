"""In which queues the one statement is worth a try."""

from __future__ import annotations

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.stores.sql.exchange.simple_jobs import FastPathQueues

REQUEST = ClaimRequest(worker_id="w", limit=1, queues=("mail",))


def test_a_claim_that_brought_nothing_tells_nothing() -> None:
    """The jobs that are next may have keys that somebody else just holds: the one statement would be tried in vain."""
    queues = FastPathQueues()
    assert queues.allows(REQUEST)
    queues.exclude(REQUEST)
    queues.observe(REQUEST, [])
    assert not queues.allows(REQUEST)
