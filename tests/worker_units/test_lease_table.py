"""What a worker tells its lease keeper arrives whole."""

from __future__ import annotations

import pytest

from euterpe.model.job import Lease
from euterpe.worker.heartbeat.lease_table import LeaseTable

TOKENS = {"none": None, "of a claim": "f" * 64}


@pytest.mark.parametrize("job_id", ["j", "0" * 36, "ä" * 128, "x" * 256], ids=len)
def test_the_keeper_reads_a_job_id_of_any_length(job_id: str) -> None:
    """In Redis lists other programs choose the ids. An id that is read otherwise is another job's, or no job's."""
    table = LeaseTable(2)
    try:
        table.hold(Lease(job_id, 7, 0), 3600.0, 60_000_000)
        (entry,) = table.entries()
        assert (entry.lease.job_id, entry.lease.claim_version, entry.keep_until) == (job_id, 7, 3600.0)
    finally:
        table.close()


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
