"""A claim brings the results that its payload refers to; what is stored stays as it was submitted."""

from __future__ import annotations

from random import Random

import pytest

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.model.dependency import Dependency
from euterpe.model.errors import InvalidInput, StoreUnavailable
from euterpe.model.state import State
from euterpe.ports import Capability
from euterpe.stores.sql.store import SqlStore
from tests.conformance.acts import DAY, complete, job, release, submit, take, take_one
from tests.conformance.clock import FrozenClock
from tests.conformance.needs import needs
from tests.sql_stores import worker_protocol

pytestmark = needs(Capability.DEPENDENCIES)

SUM = b'{"parts":[{"$euterpe.result": 1},{"$euterpe.result": 0}],"n":10000000000000000000000.5}'


async def test_a_claim_has_the_results_in_place_of_the_references(store: SqlStore) -> None:
    a, b = await submit(store, "part"), await submit(store, "part")
    total = await submit(store, "total", payload=SUM, depends_on=(a, b))
    assert (await store.get(total)).depends_on == (a, b)
    for claim in await take(store):
        await complete(store, claim, b'{"from": "' + claim.job.id.encode() + b'"}')
    for _ in range(2):  # A second claim of the same job finds them again.
        claim = await take_one(store)
        assert claim.job.depends_on == (a, b)
        assert claim.job.payload.replace(b'": "', b'":"') == (
            b'{"parts":[{"from":"%s"},{"from":"%s"}],"n":10000000000000000000000.5}' % (b.encode(), a.encode())
        )
        await release(store, claim)
    stored = await store.get(total)
    assert b'"$euterpe.result"' in stored.payload
    assert stored.depends_on == (a, b)


async def test_a_dependency_without_a_result_gives_null(store: SqlStore) -> None:
    first = await submit(store, "first")
    await submit(store, "then", payload=b'{"x":{"$euterpe.result":0}}', depends_on=(first,))
    await complete(store, await take_one(store), None)
    assert (await take_one(store)).job.payload == b'{"x":null}'


async def test_a_result_that_retention_removed_ends_the_job_and_says_which(store: SqlStore, clock: FrozenClock) -> None:
    first, slow = await submit(store, "first"), await submit(store, "slow", lifetime_us=100 * DAY)
    then = await submit(
        store, "then", payload=b'{"x":{"$euterpe.result":0}}', depends_on=(first, slow), lifetime_us=100 * DAY
    )
    plain = await submit(store, "plain", depends_on=(slow,), lifetime_us=100 * DAY)
    await complete(store, await take_one(store, types=("first",)), b"7")
    clock.advance(days=8)
    await store.sweeps.prune()
    await complete(store, await take_one(store, types=("slow",)), b"8")
    assert [claim.job.id for claim in await take(store)] == [plain]
    ended = await store.get(then)
    assert ended.state is State.FAILED
    assert ended.error_document is not None
    assert ended.error_document["code"] == "result_gone"
    assert "the result of its dependency 0 is gone" in ended.error_document["message"]


async def test_results_that_cannot_be_read_yet_cost_an_http_worker_no_attempt(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await submit(store, "first")
    then = await submit(store, "then", payload=b'{"x":{"$euterpe.result":0}}', depends_on=(first,), max_attempts=1)
    await complete(store, await take_one(store), b"7")
    free = await submit(store, "free")
    wire = worker_protocol(store.engine, Random(1))
    request = ClaimRequest(worker_id="w", limit=2)

    async def refused(_make: object) -> None:
        raise StoreUnavailable("no connection for this read")

    with monkeypatch.context() as patched:
        patched.setattr(store.engine, "read", refused)
        assert [claim.job.id for claim in await wire.claim_for(request, ["w:1", "w:2"])] == [free]
    given_back = await store.get(then)
    assert (given_back.state, given_back.attempt_count) == (State.SCHEDULED, 0)
    (claim,) = await wire.claim_for(request, ["w:1", "w:2"])
    assert (claim.job.id, claim.job.payload) == (then, b'{"x":7}')


@pytest.mark.parametrize(
    ("payload", "kind", "word"),
    [
        (b'{"x":{"$euterpe.result":1}}', Dependency.AFTER, "dependency 1; depends_on names 1 jobs"),
        (b'{"x":{"$euterpe.result":-1}}', Dependency.AFTER, "reserved name"),
        (b'{"x":{"$euterpe.result":0,"y":1}}', Dependency.AFTER, "reserved name"),
        (b'{"$euterpe.result":"0"}', Dependency.AFTER, "reserved name"),
        (b'["$euterpe.result"]', Dependency.AFTER, "reserved name"),
        (b'{"x":{"$euterpe.result":0}}', Dependency.AFTER_ANY, "does not wait for every result"),
        (b'{"x":{"$euterpe.result":"previous"}}', Dependency.AFTER, "PREVIOUS stands in a chain"),
    ],
)
async def test_what_only_looks_like_a_reference_is_refused(
    store: SqlStore, payload: bytes, kind: Dependency, word: str
) -> None:
    first = await submit(store, "first")
    with pytest.raises(InvalidInput, match=word):
        await store.submit(job("then", payload=payload, depends_on=(first,), dependency=kind))


async def test_the_name_inside_a_text_is_just_a_text(store: SqlStore) -> None:
    first = await submit(store, "first")
    said = b'{"x":"{\\"$euterpe.result\\":0} \\u0024euterpe.result","\\u0024euterpe.result":5}'
    await submit(store, "then", payload=said, depends_on=(first,))
    await complete(store, await take_one(store), b"7")
    assert (await take_one(store)).job.payload == said
