"""From POST /transcode to a signed webhook with verified outputs."""

from __future__ import annotations

import hashlib

from tests.transcode.service.studio import Studio


async def test_a_local_source_becomes_an_mp3_and_every_status_is_called_back(studio: Studio) -> None:
    studio.start_worker()
    job_id = await studio.accepted(studio.body(external_id="track_42", metadata={"album": "x"}))
    done = await studio.until(job_id)
    assert done["status"] == "succeeded", done
    (output,) = done["outputs"]
    made = (studio.root / output["key"]).read_bytes()
    assert (output["key"], output["codec"], output["content_type"]) == ("out/mp3.mp3", "mp3", "audio/mpeg")
    assert output["sha256"] == hashlib.sha256(made).hexdigest()
    assert output["size_bytes"] == len(made)
    assert abs(output["duration_ms"] - 1000) < 60

    bodies = await studio.told(5)
    kinds = [f"transcode.{s}" for s in ("claimed", "fetching", "processing", "uploading", "succeeded")]
    assert [body["type"] for body in bodies] == kinds
    sequences = [body["sequence"] for body in bodies]
    assert sequences == sorted(set(sequences))
    assert all(body["job"]["external_id"] == "track_42" and body["job"]["job_id"] == job_id for body in bodies)
    assert all("outputs" not in body and "error" not in body for body in bodies[:-1])
    assert bodies[-1]["outputs"] == done["outputs"]
    assert not studio.receiver.refused
    assert studio.leftovers() == []
