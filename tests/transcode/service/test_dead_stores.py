"""A dead store stops the transcodes that need it, and no others: not its requester's, not another's."""

from __future__ import annotations

import shutil

import pytest

from euterpe.model.failures.circuit_breaker import BreakerPolicy
from euterpe.model.failures.failure import OWN_TROUBLE, Category
from euterpe.queue.queue import core_of
from euterpe.stores.sql.accounts.keys import ApiKeys
from euterpe.transcode.handler.failing import failure_for
from euterpe.transcode.handler.store_places import place_of
from euterpe.transcode.schema.locations import (
    DestinationLocation,
    LocalDestination,
    LocalSource,
    PutUrlDestination,
    S3Destination,
    S3Source,
    SignedUrlSource,
    SourceLocation,
)
from euterpe.transcode.schema.request import TranscodePayload
from euterpe.transcode.storage.errors import Stage, StorageError
from euterpe.worker.claiming.circuits import CircuitScope
from tests.sql_stores import sql
from tests.transcode.service.studio import Studio
from tests.worker.floor import until

DEAD = "127.0.0.1:1025"
DEAD_BUCKET = f"{DEAD}/music"
SHIELD = {"min_samples": 4, "window": "10m", "cooldown_period": "1h"}
PAYLOAD = TranscodePayload(
    source=S3Source(bucket="in", key="a", endpoint="https://one.example"),
    destination=S3Destination(bucket="out", endpoint="https://two.example:9000"),
    outputs=(),
)


@pytest.mark.parametrize(
    ("location", "place"),
    [
        (PAYLOAD.source, "one.example/in"),
        (PAYLOAD.destination, "two.example:9000/out"),
        (S3Source(bucket="b", key="k", region="eu-west-1"), "s3.eu-west-1.amazonaws.com/b"),
        (SignedUrlSource(url="https://cdn.example/a/b.wav"), "cdn.example"),
        (PutUrlDestination(urls={"mp3": "https://put.example/x"}), "put.example"),
        (LocalSource(path="a"), "local"),
        (LocalDestination(), "local"),
    ],
)
def test_a_place_is_the_host_and_bucket_of_a_location(
    location: SourceLocation | DestinationLocation, place: str
) -> None:
    assert place_of(location) == place


@pytest.mark.parametrize(
    ("code", "stage", "place"),
    [
        ("storage.unreachable", Stage.FETCHING, "one.example/in"),
        ("storage.unauthorized", Stage.UPLOADING, "two.example:9000/out"),
        ("credentials.refresh_failed", Stage.UPLOADING, "two.example:9000/out"),
        (f"{OWN_TROUBLE}disk", Stage.FETCHING, None),
        ("source.changed", Stage.FETCHING, None),
    ],
)
def test_a_failure_of_a_store_names_the_store(code: str, stage: Stage, place: str | None) -> None:
    error = StorageError(code, Category.TEMPORARY, stage, "it was so")
    assert failure_for(error, str(stage), 1, PAYLOAD).place == place


async def test_transcodes_to_a_dead_store_cost_other_stores_and_other_requesters_nothing(studio: Studio) -> None:
    place = {"type": "s3", "endpoint": f"http://{DEAD}", "bucket": "music"}
    keys = {"access_key_id": "a", "secret_access_key": "b"}
    dead = studio.body(
        source={**place, "key": "a.wav"}, destination={**place, "prefix": "o/"},
        credentials={"source": keys, "destination": keys},
    )  # fmt: skip
    doomed = [await studio.accepted(dead) for _ in range(22)]
    studio.start_worker(circuit_breaker=SHIELD)
    circuits = core_of(studio.queue).circuits_of(
        BreakerPolicy(min_samples=4, window_us=600_000_000, cooldown_us=3_600_000_000)
    )
    await until(
        lambda: set(circuits.tripped) == {CircuitScope("default", "transcode", "local", DEAD_BUCKET)}, "it opens"
    )
    done = await studio.until(await studio.accepted(studio.body()))
    assert done["status"] == "succeeded", "another place of the same requester"
    bob = (await ApiKeys(sql(core_of(studio.queue).store).engine).create_key("bob", ("submit", "read"))).key
    studio.client.headers["Authorization"] = f"Bearer {bob}"
    body = studio.body()
    del body["status_webhook_url"]
    own = studio.root / "requesters/bob/in"
    own.mkdir(parents=True)
    shutil.copy(studio.root / body["source"]["path"], own)
    for n in range(3):
        done = await studio.until(
            await studio.accepted(body | {"destination": {"type": "local", "prefix": f"bob{n}/"}})
        )
        assert done["status"] == "succeeded"
    rows = [await core_of(studio.queue).store.get(job_id) for job_id in doomed]
    charged = sum(row.attempt_count for row in rows)
    assert charged < 22, "most of them wait, uncharged"
    assert set(circuits.tripped) == {CircuitScope("default", "transcode", "local", DEAD_BUCKET)}
