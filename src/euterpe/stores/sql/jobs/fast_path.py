"""Plain jobs, from whose claim nothing else follows, and the queues in which they are worth a try.

A brief statement claims only if all that is next in line is plain, else the general way has to be taken after it. So
where the line was not plain, the general way is taken at once until it brings plain jobs only.
"""

from __future__ import annotations

from collections.abc import Sequence

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.job import Claim, JobRow


def is_plain(job: JobRow) -> bool:
    """No event to write, no concurrency key to hold."""
    return job.callback_url is None and job.concurrency_key is None


class PlainLines:
    """What one claimer lately saw."""

    def __init__(self) -> None:
        self._not_plain: set[str] = set()

    def may_be(self, request: ClaimRequest) -> bool:
        return len(request.queues) == 1 and request.queues[0] not in self._not_plain

    def was_not(self, request: ClaimRequest) -> None:
        self._not_plain.update(request.queues)

    def saw(self, request: ClaimRequest, claims: Sequence[Claim]) -> None:
        """The general way brought these."""
        if all(is_plain(claim.job) for claim in claims):
            self._not_plain.difference_update(request.queues)
