"""What a worker tells its lease keeper arrives whole."""

from __future__ import annotations

import pytest

from euterpe.model.job import Lease
from euterpe.stores.sql.worker_protocol.receipts import receipt_tokens
from euterpe.worker.heartbeat.lease_table import LeaseTable

TOKENS = {"none": None, "of a row": "f" * 64, "of a receipt": receipt_tokens(b"secret", 1)[0]}


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_the_keeper_reads_a_token_as_it_was_given(token: str | None) -> None:
    """A token that is cut short is nobody's: the keeper could neither renew its lease nor give the job back."""
    table = LeaseTable(2)
    try:
        table.hold(Lease("0" * 36, 1, 0, token), 3600.0, 60_000_000, begun=False)
        (entry,) = table.entries()
        assert (entry.lease.token, entry.begun) == (token, False)
    finally:
        table.close()
