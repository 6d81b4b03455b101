"""How much each requester has waiting, for quotas: one statement for all of them."""

from __future__ import annotations

from euterpe.model.reading.views import Usage
from euterpe.stores.sql.program import Program, one


def usage(*, of_jobs: bool, of_keys: bool) -> Program[dict[str, Usage]]:
    found: dict[str, Usage] = {}
    if of_jobs:
        for requester_id, jobs, payload_bytes in (yield one("waiting_by_requester")):
            found[requester_id] = Usage(jobs, int(payload_bytes))
    if of_keys:
        for scope, count in (yield one("keys_by_requester")):
            found.setdefault(scope.partition(":")[2], Usage()).keys += count
    return found
