"""How long a transcode will take, from how long others took."""

from __future__ import annotations

import random
from statistics import median
from typing import Any

from euterpe.stores.sql.store import SqlStore
from euterpe.transcode.estimate import FEWEST_RUNS, RUNS_KEPT, RunHistory, estimate_ms, work_of
from euterpe.transcode.schema.checking import read_outputs
from euterpe.transcode.schema.outputs import Output
from tests.conformance.clock import FrozenClock

JOB = "0b0f2f0e-6b1e-4a7e-9a0f-4f6c5d1f2a3b"


def outputs(*raw: dict[str, Any]) -> tuple[Output, ...]:
    read, problems = read_outputs(list(raw))
    assert not problems
    return read


MP3 = outputs({"id": "a", "kind": "audio", "preset": "mp3_320"})


def test_there_is_no_estimate_before_enough_runs() -> None:
    assert estimate_ms([(1000, 50)] * (FEWEST_RUNS - 1), 1000) is None
    assert estimate_ms([(1000, 50)] * FEWEST_RUNS, 1000) == 50
    assert estimate_ms([(1000, 50)] * FEWEST_RUNS, None) == 50


def test_an_estimate_follows_the_length_of_the_source_and_odd_runs_do_not_bend_it() -> None:
    chance = random.Random(7)
    runs = [(media, round((80 + media * 0.02) * chance.uniform(0.85, 1.15))) for media in range(1000, 240_000, 6000)]
    runs = [(media, run * 20 if i % 5 == 0 else run) for i, (media, run) in enumerate(runs)]
    off = []
    for media in range(5000, 200_000, 5000):
        expected = estimate_ms(runs, media)
        assert expected is not None
        off.append(abs(expected - (80 + media * 0.02)) / (80 + media * 0.02))
    assert median(off) < 0.25


def test_what_takes_the_same_time_is_the_same_work() -> None:
    named = {"id": "b", "kind": "audio", "preset": "mp3_320", "filename": "x.mp3", "tags": {"set": {"title": "t"}}}
    assert work_of(MP3) == work_of(outputs(named))
    assert work_of(MP3) != work_of(outputs({"id": "a", "kind": "audio", "preset": "mp3_128"}))
    assert work_of(MP3) != work_of(outputs({"id": "a", "kind": "audio", "preset": "mp3_320", "loudness": {}}))
    one, other = {"id": "a", "kind": "audio", "preset": "flac"}, {"id": "b", "kind": "waveform"}
    assert work_of(outputs(one, other)) == work_of(outputs(other, one))


async def test_the_newest_runs_of_each_kind_of_work_are_kept(jobs: SqlStore, clock: FrozenClock) -> None:
    history = RunHistory(jobs.engine)
    for i in range(RUNS_KEPT + 5):
        clock.advance(us=1)
        await history.record(JOB, MP3, 1000, 10 if i < 5 else 200)
    assert await history.expected_ms(MP3) == 200
    assert await history.expected_ms(MP3, 5000) == 200
    assert await history.expected_ms(outputs({"id": "a", "kind": "audio", "preset": "flac"})) is None
