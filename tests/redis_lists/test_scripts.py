"""The scripts by direct calls: each looks at what it was shown before it moves anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from euterpe.model.claims.exchange import ProgressUpdate
from euterpe.model.errors import IllegalTransition
from euterpe.model.state import State
from euterpe.stores.redis_lists.scripts import FOLDER, source_of
from euterpe.stores.redis_lists.settings import ListSettings
from euterpe.stores.redis_lists.store import RedisListStore
from tests.conformance.acts import complete, fail, submit, take, take_one, taken
from tests.conformance.clock import FrozenClock
from tests.redis_lists.foreign import HIGH

KEYS = ListSettings().script_keys
NAMES = sorted(path.stem for path in FOLDER.glob("*.lua") if path.stem != "common")


def snapshot(raw: redis.Redis) -> dict[str, object]:
    """All that Redis holds, but for what hints and looks leave."""
    read: dict[str, Callable[[str], object]] = {
        "list": lambda key: raw.lrange(key, 0, -1),
        "hash": raw.hgetall,
        "zset": lambda key: raw.zrange(key, 0, -1, withscores=True),
        "set": raw.smembers,
        "string": raw.get,
    }
    keys = [key for key in raw.scan_iter() if not key.endswith(":wake")]
    return {key: read[str(raw.type(key))](key) for key in sorted(keys)}


def run(raw: redis.Redis, name: str, *arguments: object) -> object:
    return raw.eval(source_of(name)[0], len(KEYS), *KEYS, *map(str, arguments))


def test_every_script_has_a_file_and_a_caller() -> None:
    called = "".join(path.read_text() for path in FOLDER.parent.glob("*.py"))
    assert [name for name in NAMES if f'"{name}"' not in called] == []
    assert Path(FOLDER / "common.lua").exists()


async def test_acts_on_a_version_that_is_over_change_nothing(store: RedisListStore, raw: redis.Redis) -> None:
    claim = await taken(store)
    job_id = claim.job.id
    before = snapshot(raw)
    assert run(raw, "request_cancel", job_id, 9) == 0
    assert run(raw, "retry_failed", "", job_id, 1) == 0
    assert run(raw, "dead_letter_failed", "", job_id, 1) == 0
    assert run(raw, "end_waiting", "", job_id, 1, "scheduled", "cancelled", "{}") == ["0"]
    assert run(raw, "update", job_id, 9, "running", "entry", "other", HIGH) == 0
    assert run(raw, "purge", "", job_id) == ["refused", job_id, "running"]
    assert run(raw, "heartbeat", "", 1, 1, 1, 1, 1, job_id, 9) == [["", "0"]]
    assert run(raw, "advance", "", job_id, 9, "", "", 1, 50, 0, "", 0, "") == ["0"]
    report = (job_id, 9, "completed", "completed", 0, "", "", 0, 0, "", 0, "", "", "")
    stamp_states = run(raw, "turn", "", 0, 1, *report, 0, "")
    assert isinstance(stamp_states, list)
    assert stamp_states[1] == [""]
    assert snapshot(raw) == before


async def test_a_sweep_takes_nothing_from_a_worker_that_lives(store: RedisListStore, raw: redis.Redis) -> None:
    claim = await taken(store)
    before = snapshot(raw)
    report = (claim.job.id, 1, "retrying", "system", 0, "", "{}", 0, 0, "", 0, "1", "", "1")
    answer = run(raw, "turn", store._exchange.now, 0, 1, *report, 0, "")
    assert isinstance(answer, list)
    assert answer[1] == [""]
    assert run(raw, "reap_entry", "w1", raw.lindex("jobqueue:worker:w1:processing", 0), HIGH) == "alive"
    assert run(raw, "lost", store._exchange.now, "w1", 0) == [1, [], []]
    assert snapshot(raw) == before


async def test_a_look_at_a_living_worker_does_for_all(store: RedisListStore, raw: redis.Redis) -> None:
    await taken(store)
    assert run(raw, "lost", "", "w1", 5_000) == [1, [], []] or run(raw, "lost", "", "w1", 5_000) == [0, [], []]
    assert run(raw, "lost", "", "w1", 5_000) == [0, [], []]


async def test_counts_agree_with_the_records_whatever_happens(store: RedisListStore, clock: FrozenClock) -> None:
    kept = [await submit(store, f"t{i % 3}", priority=i % 5) for i in range(30)]
    claims = await take(store, 20)
    for i, claim in enumerate(claims):
        await (complete if i % 3 else fail)(store, claim)
    await store.cancel(kept[-1]) if (await store.get(kept[-1])).state is State.SCHEDULED else None
    clock.advance(hours=2)
    await store.sweeps.urgent()
    records = [(await store.get(job_id)).state for job_id in kept]
    assert (await store.stats()).by_state == {state: records.count(state) for state in set(records)}
    for queue_states in (await store.stats()).by_type.values():
        assert all(count > 0 for count in queue_states.values())


async def test_a_stage_out_of_order_is_refused_and_its_batch_with_it(store: RedisListStore, raw: redis.Redis) -> None:
    staged = await taken(store, "staged", stages=("claimed", "a", "b"))
    plain = await taken(store, "plain")
    before = snapshot(raw)
    with pytest.raises(IllegalTransition, match="next stage is a"):
        await store.update_progress([ProgressUpdate(plain, progress=5.0), ProgressUpdate(staged, stage="b")])
    assert snapshot(raw) == before
    assert await store.update_progress(
        [ProgressUpdate(staged, stage="a"), ProgressUpdate(staged, stage="b", message="on")]
    ) == [True, True]
    job = await store.get(staged.job.id)
    assert (job.stage, job.progress_message) == ("b", "on")


async def test_a_purged_dead_letter_leaves_a_tombstone_and_no_entry(store: RedisListStore, raw: redis.Redis) -> None:
    job_id = await submit(store, max_attempts=1)
    await fail(store, await take_one(store))
    assert await store.purge([job_id, "00000000-0000-4000-8000-000000000000"]) == [job_id]
    assert raw.llen("jobqueue:dead_letter") == 0
    assert not raw.exists(f"jobqueue:job:{job_id}", f"jobqueue:attempts:{job_id}")
    assert raw.zscore("jobqueue:tombstones", job_id)
