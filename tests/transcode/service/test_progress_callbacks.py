"""Progress is called back to who asked for it, in order, and never by an attempt that lost its claim."""

from __future__ import annotations

import msgspec

from euterpe.model.claims.exchange import ClaimRequest
from euterpe.queue.queue import core_of
from euterpe.transcode.handler.progress import ProgressReporter
from euterpe.transcode.handler.progress_callbacks import ProgressCallbacks
from euterpe.transcode.storage.ports import UploadAttempt
from tests.sql_stores import sql
from tests.transcode.service.studio import Studio


async def test_progress_is_called_back_under_the_status_of_the_moment(studio: Studio) -> None:
    job_id = await studio.accepted(studio.body(progress_webhook_seconds=1))
    store = sql(core_of(studio.queue).store)
    now = [100.0]
    (claim,) = await store.claim(ClaimRequest(worker_id="w", limit=1, types=("transcode",)))
    stale = ProgressCallbacks(store.engine, UploadAttempt(job_id, 99), 10, lambda: now[0])
    callbacks = ProgressCallbacks(store.engine, UploadAttempt(job_id, claim.job.claim_version), 10, lambda: now[0])
    told: list[float] = []
    reporter = ProgressReporter(lambda percent, _: told.append(percent), callbacks.moved, lambda: now[0])
    for done in (10, 20, 30):
        reporter.moved("fetching", done, 100)
        stale.moved(99.0, "")
        await callbacks.close()
        await stale.close()
        now[0] += 7
    assert told == [1.0, 2.0, 3.0]
    events = [event for _, event in await store.outbox.search(job_id=job_id)]
    bodies = [msgspec.json.decode((await store.outbox.get(event.id)).body) for event in reversed(events)]
    assert [body["type"] for body in bodies] == ["transcode.claimed", "transcode.claimed"]
    assert bodies[-1]["job"]["progress"] == {"percent": 3.0, "message": ""}
    assert bodies[0]["sequence"] < bodies[1]["sequence"]
    assert (await studio.status(job_id))["progress"]["percent"] == 3.0


async def test_a_transcode_that_asks_for_it_succeeds_with_its_callbacks_in_order(studio: Studio) -> None:
    studio.start_worker()
    done = await studio.until(await studio.accepted(studio.body(progress_webhook_seconds=1)))
    assert done["status"] == "succeeded", done
    bodies = await studio.told(5)
    sequences = [body["sequence"] for body in bodies]
    assert sequences == sorted(set(sequences))
    answer = await studio.post(studio.body(progress_webhook_seconds=0))
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/progress_webhook_seconds")
