"""`local` sources and destinations: off unless the operator names a folder, and then one for each requester."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import msgspec

from euterpe.model.state import TRANSCODE_STAGES
from euterpe.model.submitting.submission import Submission
from euterpe.queue.queue import core_of
from euterpe.stores.sql.accounts.keys import ApiKeys
from euterpe.transcode.media.ffmpeg.tools import Tools
from tests.plain_http import NO_CERTIFICATES
from tests.sql_stores import sql
from tests.transcode.service.conftest import put_source
from tests.transcode.service.studio import Studio, studio_on


@asynccontextmanager
async def another(studio: Studio, requester: str) -> AsyncIterator[Studio]:
    """The same service with the key of another requester."""
    keys = ApiKeys(sql(core_of(studio.queue).store).engine)
    created = await keys.create_key(requester, ("submit", "read"))
    headers = {"Authorization": f"Bearer {created.key}"}
    async with httpx.AsyncClient(
        base_url=studio.client.base_url, headers=headers, timeout=30, trust_env=False, verify=NO_CERTIFICATES
    ) as client:
        yield replace(studio, client=client)


async def error_of(studio: Studio, path: str, prefix: str = "out/") -> str:
    source, destination = {"type": "local", "path": path}, {"type": "local", "prefix": prefix}
    body = studio.body(source=source, destination=destination, status_webhook_url=None, max_attempts=1)
    done = await studio.until(await studio.accepted(body))
    code: str = (done["last_error"] or {"code": done["status"]})["code"]
    return code


async def test_a_requester_reads_and_replaces_its_own_files_alone(studio: Studio, tone: Path) -> None:
    studio.start_worker()
    (studio.root / "out").mkdir()
    (studio.root / "out/mp3.mp3").write_bytes(b"the operator's")
    for name in ("alice", "bob"):
        put_source(studio, tone, f"requesters/{name}/in/{name}.wav")
    async with another(studio, "alice") as alice, another(studio, "bob") as bob:
        assert await error_of(alice, "in/alice.wav") == "succeeded"
        assert await error_of(bob, "in/bob.wav") == "succeeded"
        assert await error_of(bob, "in/alice.wav") == "source.not_found"
        assert await error_of(bob, "in/a.wav") == "source.not_found", "the operator's"
        assert await error_of(bob, "requesters/alice/in/alice.wav") == "source.not_found"
    assert (studio.root / "out/mp3.mp3").read_bytes() == b"the operator's"
    assert (studio.root / "requesters/alice/out/mp3.mp3").is_file()
    assert (studio.root / "requesters/bob/out/mp3.mp3").is_file()
    # The machine's own requester has the rest of the folder, and no part of another's.
    assert await error_of(studio, "requesters/alice/in/alice.wav") == "storage.access_denied"
    assert await error_of(studio, "in/a.wav", "requesters/bob/out/") == "storage.access_denied"
    staging = {"type": "local", "prefix": ".euterpe-staging/x/"}
    assert (await studio.post(studio.body(destination=staging))).status_code == 422


async def test_local_places_are_refused_unless_a_folder_is_configured(
    sqlite_url: str, tmp_path: Path, tools: Tools
) -> None:
    async with studio_on(sqlite_url, tmp_path, tools, change=lambda said: replace(said, local_root="")) as studio:
        answer = await studio.post(studio.body())
        assert answer.status_code == 422
        problems = answer.json()["errors"]
        assert [(each["pointer"], each["code"]) for each in problems] == [
            ("/source/type", "unsupported"),
            ("/destination/type", "unsupported"),
        ]
        # A job that came past the route is refused by the worker.
        studio.start_worker()
        payload = {name: value for name, value in studio.body().items() if name != "status_webhook_url"}
        forged = Submission(
            type="transcode", payload=msgspec.json.encode(payload), max_attempts=1, stages=TRANSCODE_STAGES
        )
        done = await studio.until((await core_of(studio.queue).store.submit(forged)).job_id)
        assert done["last_error"]["code"] == "storage.local_disabled"
