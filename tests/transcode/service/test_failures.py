"""What goes wrong has a code, a category, a stage and one end; secrets are nowhere in it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from euterpe.transcode.media.ffmpeg.tools import Tools
from tests.servers.s3 import RcloneServer
from tests.transcode.credentials.requester import Requester, requester
from tests.transcode.service.conftest import put_source
from tests.transcode.service.studio import Studio, studio_on
from tests.transcode.storage.gate import Gate, Token, gate_to

BUCKET = "music"
NOBODY_LISTENS = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def rclone() -> Any:
    with RcloneServer() as server:
        (server.data / BUCKET).mkdir()
        yield server


@pytest.fixture
async def gate(rclone: RcloneServer) -> AsyncIterator[Gate]:
    async with gate_to(rclone.url) as made:
        yield made


def copy_to(target: Path, source: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(source.read_bytes())


def bytes_of_all(folder: Path, pattern: str) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob(pattern) if path.is_file())


def s3_request(studio: Studio, gate_url: str, keys: dict[str, str], prefix: str = "out/") -> dict[str, Any]:
    place = {"type": "s3", "endpoint": gate_url, "bucket": BUCKET}
    return studio.body(
        source={**place, "key": "in/a.wav"},
        destination={**place, "prefix": prefix},
        credentials={"source": keys, "destination": keys},
    )


async def test_credentials_that_expire_on_the_way_are_refreshed_and_a_secret_is_found_nowhere(
    studio: Studio, rclone: RcloneServer, gate: Gate, tone: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    copy_to(rclone.data / BUCKET / "in/a.wav", tone)
    gate.tokens = {"canary-old-token": Token(uses=2), "canary-new-token": Token()}
    secrets = {"access_key_id": rclone.access_key_id, "secret_access_key": rclone.password}
    asked: list[Requester] = []
    async with requester() as owner:
        owner.secret = studio.receiver.secret

        async def send_fresh(call: dict[str, Any]) -> None:
            fresh = {**secrets, "session_token": "canary-new-token"}
            body = {"credentials": {"source": fresh, "destination": fresh}, "refresh_id": call["refresh_id"]}
            version = f'"{call["credential_version"]}"'
            path = f"/transcode/{call['job_id']}/credentials"
            assert call["update_url"].endswith(path)
            answer = await studio.client.put(path, json=body, headers={"If-Match": version})
            assert answer.status_code == 200, answer.text

        owner.on_call = send_fresh
        asked.append(owner)
        body = s3_request(studio, gate.url, {**secrets, "session_token": "canary-old-token"})
        job_id = await studio.accepted(body | {"refresh_url": owner.url})
        studio.start_worker()
        done = await studio.until(job_id)
        bodies = await studio.told(5)
    assert done["status"] == "succeeded", done
    assert (done["credential_version"], done["refresh_attempts"], done["attempt_count"]) == (2, 1, 1)
    (output,) = done["outputs"]
    assert (output["bucket"], output["key"]) == (BUCKET, "out/mp3.mp3")
    assert (rclone.data / BUCKET / "out/mp3.mp3").stat().st_size == output["size_bytes"]

    await studio.transcoding.credentials.purge_ended()
    assert await studio.transcoding.credentials.count_by_kek() == {}
    database = bytes_of_all(tmp_path, "jobs.db*")
    told = "".join([caplog.text, str(done), str(bodies), str(asked[0].raw)]).encode()
    for secret in ("canary-old-token", "canary-new-token", rclone.password):
        assert secret.encode() not in database + told
    assert studio.leftovers() == []


async def test_a_source_that_is_no_media_fails_with_its_stage(studio: Studio, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not music at all " * 100)
    put_source(studio, tmp_path / "text", "in/text.wav")
    studio.start_worker()
    done = await studio.until(await studio.accepted(studio.body(source={"type": "local", "path": "in/text.wav"})))
    error = done["last_error"]
    assert (done["status"], done["attempt_count"]) == ("failed", 1)
    assert (error["category"], error["stage"], error["retryable"]) == ("permanent", "processing", False)
    assert error["code"].startswith("media.")
    assert "stack" not in error
    last = (await studio.told(4))[-1]
    assert (last["type"], last["error"]["code"]) == ("transcode.failed", error["code"])
    assert "outputs" not in last
    assert studio.leftovers() == []
    assert studio.published() == []


async def test_a_missing_source_fails_while_fetching(studio: Studio) -> None:
    studio.start_worker()
    done = await studio.until(await studio.accepted(studio.body(source={"type": "local", "path": "in/none.wav"})))
    error = done["last_error"]
    assert (done["status"], error["code"], error["stage"]) == ("failed", "source.not_found", "fetching")


async def test_a_source_over_the_limit_is_refused_before_it_is_fetched(
    sqlite_url: str, tmp_path: Path, tools: Tools, tone: Path
) -> None:
    async with studio_on(
        sqlite_url, tmp_path, tools, change=lambda said: replace(said, max_source_bytes=1000)
    ) as small:
        put_source(small, tone)
        small.start_worker()
        done = await small.until(await small.accepted(small.body()))
        assert (done["status"], done["last_error"]["code"]) == ("failed", "source.too_large")


async def test_a_store_that_is_down_costs_the_budget_and_then_the_job_is_a_dead_letter(studio: Studio) -> None:
    studio.start_worker()
    keys = {"access_key_id": "a", "secret_access_key": "b"}
    body = s3_request(studio, NOBODY_LISTENS, keys) | {"max_attempts": 1}
    refused = await studio.post(body)
    assert refused.status_code == 422, "a privileged port of this machine is not open"
    body = s3_request(studio, "http://127.0.0.1:1025", keys) | {"max_attempts": 1}
    done = await studio.until(await studio.accepted(body))
    error = done["last_error"]
    assert (done["status"], error["category"], error["stage"]) == ("dead_letter", "temporary", "fetching")
    assert (await studio.told(3))[-1]["type"] == "transcode.dead_letter"
