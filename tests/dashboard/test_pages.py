"""What the pages tell, and that nothing that was stored can break out of them."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlencode

import httpx
import msgspec

from euterpe.model.claims.attempt_log import LogBuffer, line_of
from euterpe.model.claims.exchange import ProgressUpdate, Report
from euterpe.model.claims.outcome import Failed, Success
from euterpe.model.claims.presence import BreakerState, Presence, TrippedBreaker, WorkerFacts
from euterpe.model.events.outbox import Delivery
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.retention import Retention
from euterpe.service.components.dashboard import open_local
from tests.dashboard.site import Site, form_token, running_site, text_of

HOSTILE = "</title></textarea><script>alert(1)</script><img src=x onerror=alert(1)>'\"`\u2028&lt;"
BIG = 2**70 + 1


async def page(client: httpx.AsyncClient, path: str) -> str:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


async def test_the_overview_tells_what_waits_runs_and_failed(either_site: Site) -> None:
    site = either_site
    for _ in range(3):
        await site.submit(queue="reports", priority=1)
    await site.submit()
    await site.complete()
    await site.submit(max_attempts=1)
    await site.run(Failed(Failure(Category.PERMANENT, "no")))
    await site.submit()
    await site.claim()
    await site.store.pause("queue", "reports")
    async with site.visitor() as client:
        text = text_of(await page(client, "/"))
    for told in ("1 ▶ running", "3 ○ scheduled", "1 ✓ completed", "1 ✕ failed", "50.0 %", "w-1 1 ✓ alive"):
        assert told in text, (told, text)
    assert re.search(r"reports 3 high .*? 0 ‖ paused", text), text


async def test_the_overview_tells_admins_whether_housekeeping_is_behind(site: Site) -> None:
    await site.submit()
    await site.complete()
    async with site.visitor() as client:
        assert "Housekeeping Ended jobs are removed when their retention is over" in text_of(await page(client, "/"))
        site.store.sweeps.retention = Retention(completed_us=0)
        text = text_of(await page(client, "/"))
        assert re.search(r"The oldest is overdue by .*? To remove them now: euterpe prune", text), text


async def test_an_empty_house_tells_the_next_step(site: Site) -> None:
    async with site.visitor() as client:
        assert "There are no jobs yet. Submit one with" in text_of(await page(client, "/"))
        assert "There are no jobs yet" in text_of(await page(client, "/dashboard/jobs"))
        assert "No job matches this search" in text_of(await page(client, "/dashboard/jobs?q=state:failed"))


async def test_the_table_goes_by_query_and_cursor_and_says_what_it_cannot_read(either_site: Site) -> None:
    site = either_site
    for i in range(52):
        await site.submit(type="old.kind" if i < 2 else "new.kind")
    async with site.visitor() as client:
        first = await page(client, "/dashboard/jobs?q=type:new.*")
        assert first.count('class="row-link"') == 50
        assert "Older" not in first
        newest = await page(client, "/dashboard/jobs")
        older = re.search(r'href="(/dashboard/jobs\?cursor=\d+)" rel="next"', newest)
        assert older is not None
        assert (await page(client, older[1])).count("old.kind</a>") == 2
        chips = await page(client, "/dashboard/jobs?" + urlencode({"q": 'type:new.* "a b" state:running'}))
        assert urlencode({"q": 'state:failed type:new.* "a b"'}) in chips
        wrong = text_of(await page(client, "/dashboard/jobs?q=colour:red"))
        assert "The search cannot be read" in wrong
        assert "'colour:red' at character 1" in wrong
        assert (await client.get("/dashboard/jobs?cursor=x")).status_code == 200


async def test_a_job_tells_everything_about_itself_but_its_secrets(either_site: Site) -> None:
    site = either_site
    payload = b'{"n": %d, "password": "hunter2", "deep": {"api_key": ["hunter3"], "x": 1.10}}' % BIG
    first = await site.submit(type="prepare")
    job_id = await site.submit(
        payload=payload,
        depends_on=(first,),
        correlation_id="order 7",
        tags={"team": "a"},
        callback_url="http://127.0.0.1:9/hook",
    )
    async with site.visitor() as client:
        waiting = text_of(await page(client, f"/dashboard/jobs/{job_id}"))
        assert "It waits for prepare" in waiting
        await site.complete()
        claim = await site.claim()
        await site.store.update_progress([ProgressUpdate(claim=claim, progress=40, message="page 4")])
        running = text_of(await page(client, f"/dashboard/jobs/{job_id}"))
        for told in ("40 %, page 4", "Worker w-1", "▶ runs", "waits for ✓ completed prepare", "order 7", "team: a"):
            assert told in running, told
        assert str(BIG) in running
        assert "1.10" in running
        assert "hunter" not in running
        assert "hidden: its name says that it is a secret" in running
        assert "job.running" in running
        failed = Failed(Failure(Category.PERMANENT, "no such template", code="TemplateError", stack="line 1\nline 2"))
        buffer = LogBuffer(lines_kept=1)
        for message in ("older", "looking for <b>it</b>"):
            buffer.add(line_of(1_700_000_000_000_000, "info", "shop", message))
        await site.store.settle([Report(claim, failed, log=buffer.stored())])
        ended = text_of(await page(client, f"/dashboard/jobs/{job_id}"))
        assert "TemplateError (permanent): no such template" in ended
        assert "line 1 line 2" in ended
        assert "Log (1 line, 1 older ones not kept) 22:13:20.000 info shop: looking for <b>it</b>" in ended
        assert "It failed at" in ended


async def test_nothing_that_was_stored_breaks_out_of_a_page(either_site: Site) -> None:
    site = either_site
    parent = await site.submit(type=HOSTILE[:150])
    await site.complete()
    job_id = await site.submit(
        type=HOSTILE,
        queue=HOSTILE,
        payload=b'{"a</script><b>": ["<i>x</i>"]}',
        correlation_id=HOSTILE,
        idempotency_key=HOSTILE,
        concurrency_key=HOSTILE,
        concurrency_limit=1,
        tags={HOSTILE: HOSTILE},
        depends_on=(parent,),
        callback_url="http://127.0.0.1:9/?x='-alert(1)-'",
        max_attempts=2,
    )
    claim = await site.claim(HOSTILE)
    await site.store.update_progress([ProgressUpdate(claim=claim, progress=4, message=HOSTILE)])
    async with site.visitor() as client:
        pages = [await page(client, f"/dashboard/jobs/{job_id}"), await page(client, "/")]
        failure = Failure(Category.PERMANENT, HOSTILE, code=HOSTILE, stack=HOSTILE)
        await site.store.settle([Report(claim, Failed(failure))])
        pages += [await page(client, f"/dashboard/jobs/{job_id}"), await page(client, "/dashboard/jobs")]
        quoted = quote(f'"{HOSTILE.replace(chr(34), "")}"')
        pages.append(await page(client, f"/dashboard/jobs?q={quoted}&cursor=1"))
        wrong = await client.get(f"/dashboard/jobs?q={quote(HOSTILE)}")
        missing = await client.get(f"/dashboard/jobs/{quote(HOSTILE.replace('/', ''), safe='')}")
        pages += [wrong.text, missing.text]
        assert missing.status_code == 404
    for html in pages:
        assert "alert(1)" in html
        assert re.findall(r"<script\b[^>]*>", html) == re.findall(r'<script src="/dashboard/assets/[^>]*>', html)
        assert "<img" not in html
        assert "<i>x" not in html
        assert "</title></textarea>" not in html


async def test_a_job_is_cancelled_retried_and_replayed_with_another_payload(either_site: Site) -> None:
    site = either_site
    job_id = await site.submit(payload=b'{"n": %d, "token": "s3cret"}' % BIG, max_attempts=1)
    async with site.visitor() as client:
        address = f"/dashboard/jobs/{job_id}"
        shown = await page(client, address)
        token = {"csrf": form_token(shown)}
        edited = f'{{"n": {BIG + 1}, "token": "••• hidden •••", "m": 1}}'
        made = await client.post(f"{address}/replay", data=token | {"payload": edited})
        new_id = re.fullmatch(r"/dashboard/jobs/([0-9a-f-]{36})\?said=replayed", made.headers["location"])
        assert new_id is not None
        new = await site.store.get(new_id[1])
        assert (new.replay_of, re.sub(rb"\s", b"", new.payload)) == (
            job_id,
            b'{"n":%d,"token":"s3cret","m":1}' % (BIG + 1),
        )
        for wrong in ("{", '{"elsewhere": "••• hidden •••"}'):
            assert (await client.post(f"{address}/replay", data=token | {"payload": wrong})).status_code == 422
        claim = await site.claim()
        assert claim.job.id == job_id
        asked = await client.post(f"{address}/cancel", data=token)
        assert asked.headers["location"].endswith("said=cancel-requested")
        forced = await client.post(f"{address}/cancel", data=token | {"force": "yes"})
        assert forced.headers["location"].endswith("said=cancelled")
        assert "The job is cancelled." in await page(client, forced.headers["location"])
        again = await client.post(f"{address}/retry", data=token)
        assert again.headers["location"].endswith("said=replayed")
        late = await client.post(f"{address}/cancel", data=token)
        assert late.status_code == 200 or late.headers["location"].endswith("said=cancelled")


async def test_a_live_page_sends_its_body_when_something_changed_and_ends_with_the_session(site: Site) -> None:
    async with site.visitor() as client, site.browser() as nobody:
        assert (await nobody.get("/dashboard/live/overview")).status_code == 401
        shown = await page(client, "/dashboard/jobs?q=state:scheduled")
        live = re.search(r'data-live="([^"]+)"', shown)
        assert live is not None
        assert live[1] == "/dashboard/live/jobs?q=state:scheduled"
        token = form_token(shown)
        async with asyncio.timeout(30), client.stream("GET", live[1]) as stream:
            lines = stream.aiter_lines()
            assert "No job matches" in await _next_page(lines)
            await site.submit(type="brand.new")
            assert "brand.new" in await _next_page(lines)
            await client.post("/dashboard/sign-out", data={"csrf": token})
            rest = [line async for line in lines]
            assert "event: signed-out" in rest


async def _next_page(lines: object) -> str:
    assert hasattr(lines, "__anext__")
    body = []
    async for line in lines:  # type: ignore[attr-defined]
        if line.startswith("data: "):
            body.append(line)
        elif body and not line:
            return "".join(body)
    raise AssertionError("the stream ended")


async def test_a_first_load_is_small(site: Site) -> None:
    for _ in range(50):
        await site.submit()
    async with site.visitor() as client:
        for path in ("/", "/dashboard/jobs"):
            shown = await client.get(path)
            size = len(shown.content)
            for asset in re.findall(r'"(/dashboard/assets/[^"]+)"', shown.text):
                answer = await client.get(asset)
                assert "immutable" in answer.headers["cache-control"]
                size += len(answer.content)
            assert size < 100_000, (path, size)


async def test_queues_are_paused_and_resumed_and_workers_tell_what_they_hold(either_site: Site) -> None:
    site = either_site
    await site.submit(queue="a/b ü")
    await site.submit()
    claim = await site.claim()
    async with site.visitor() as client:
        token = {"csrf": form_token(await page(client, "/dashboard/queues")), "kind": "queue", "name": "a/b ü"}
        for do, paused in (("pause", [("queue", "a/b ü")]), ("resume", [])):
            assert (await client.post("/dashboard/queues/pause", data=token | {"do": do})).status_code == 303
            assert await site.store.paused() == paused
        await client.post("/dashboard/queues/pause", data=token | {"kind": "type", "name": "report.render"})
        text = text_of(await page(client, "/dashboard/queues?said=paused"))
        for told in ("a/b ü 1", "w-1 ✓ alive holds 1", "report.render " + claim.job.id[-8:], "Resume report.render"):
            assert told in text, (told, text)
        assert (await client.post("/dashboard/queues/pause", data=token | {"kind": "x"})).status_code == 422


async def test_idle_workers_and_the_breakers_of_every_process_are_shown_to_an_admin(either_site: Site) -> None:
    site = either_site
    tripped = (TrippedBreaker("mail", "kite", BreakerState.OPEN, 30_000_000),)
    told = WorkerFacts(queues=("mail",), types=("<b>kite</b>",), slots=8, host="web-1", pid=7, version="1.2")
    idle, barred = (msgspec.structs.replace(told, breakers=breakers) for breakers in ((), tripped))
    await site.store.workers.register(
        [Presence(worker_id="idle-1", facts=idle), Presence(worker_id="barred-1", facts=barred)]
    )
    async with site.visitor() as admin, site.visitor("read") as reader:
        overview = text_of(await page(admin, "/"))
        for said in (
            "idle-1 0 / 8 ✓ idle",
            "barred-1 0 / 8 ⚠ breaker of kite in queue mail open",
            "2 alive, 0 at work",
        ):
            assert said in overview, (said, overview)
        assert "⚠ breaker of kite in queue mail open on 1 of 2 workers" in overview
        queues = text_of(await page(admin, "/dashboard/queues"))
        for said in ("holds 0 of 8 slots", "takes from mail ; knows <b>kite</b>", "web-1 pid 7 release 1.2"):
            assert said in queues, (said, queues)
        for path in ("/", "/dashboard/queues"):
            hidden = text_of(await page(reader, path))
            assert "No worker runs a job of yours right now." in hidden
            assert not [name for name in ("idle-1", "barred-1", "mail", "kite") if name in hidden]
    await site.store.workers.unregister("idle-1")
    await site.store.workers.unregister("barred-1")
    async with site.visitor() as admin:
        assert "No worker is alive." in text_of(await page(admin, "/"))


async def test_webhooks_are_found_by_state_and_sent_again(either_site: Site) -> None:
    site = either_site
    job_id = await site.submit(callback_url="http://127.0.0.1:9/hook?token=hunter2")
    await site.complete()
    outbox = site.store.outbox
    (event,) = await outbox.claim("d-1", 1)
    refused = Delivery(
        event_id=event.id, claim_version=event.claim_version, state="dead_letter", outcome="rejected", http_status=500
    )
    await outbox.settle([refused])
    async with site.visitor("read") as reader, site.visitor("read", requester="juno") as stranger:
        table = await page(reader, "/dashboard/webhooks?state=dead_letter")
        assert table.count('class="row-link"') == 1
        assert "http://127.0.0.1:9 (1)" in text_of(table)
        assert "No job has asked for webhooks" in text_of(await page(stranger, "/dashboard/webhooks"))
        one = await page(reader, f"/dashboard/webhooks/{event.id}")
        assert "1 rejected 500" in text_of(one)
        assert "hunter2" not in table + one
        assert (await stranger.get(f"/dashboard/webhooks/{event.id}")).status_code == 404
        assert event.id in await page(reader, f"/dashboard/jobs/{job_id}")
        again = f"/dashboard/webhooks/{event.id}/redeliver"
        assert (await reader.post(again, data={"csrf": form_token(one)})).status_code == 403
    async with site.visitor() as client:
        token = {"csrf": form_token(await page(client, "/"))}
        assert (await client.post(again, data=token)).headers["location"].endswith("said=redelivered")
        assert (await outbox.get(event.id)).state == "scheduled"


async def test_a_transcode_tells_its_outputs_and_plays_what_lies_here(sqlite_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "requesters/vesta"
    (folder / "out").mkdir(parents=True)
    (folder / "out/a.mp3").write_bytes(bytes(range(256)) * 8)
    (folder / "out/peaks.json").write_text('{"data": [-3, 4, -2, 5]}')
    (folder.parent / "outside.mp3").write_bytes(b"secret")
    kinds = {"a/b": "out/a.mp3", "out": "../outside.mp3", "gone": "out/gone.mp3"}
    outputs = [
        {"id": name, "kind": "audio", "key": key, "content_type": "audio/mpeg", "size_bytes": 2048, "codec": "mp3"}
        for name, key in kinds.items()
    ]
    outputs.append({"id": "p", "kind": "waveform", "key": "out/peaks.json", "content_type": "application/json"})
    payload = {"source": {"type": "local", "path": "in/x.wav"}, "destination": {"type": "local", "prefix": "out/"}}
    async with running_site(sqlite_url, partial(open_local, tmp_path)) as site:
        job_id = await site.submit(type="transcode", payload=msgspec.json.encode(payload))
        await site.run(Success(msgspec.json.encode({"outputs": outputs})), types=("transcode",))
        async with site.visitor("read") as client, site.visitor("read", requester="juno") as stranger:
            table = await page(client, "/dashboard/transcodes")
            assert "in/x.wav" in table
            assert "mp3 · 2.05 kB" in text_of(table)
            address = f"/dashboard/transcodes/{job_id}/0"
            assert f'<audio src="{address}"' in table
            assert 'class="waveform"' in await page(client, f"/dashboard/jobs/{job_id}")
            whole = await client.get(address)
            assert (whole.status_code, len(whole.content), whole.headers["content-type"]) == (200, 2048, "audio/mpeg")
            piece = await client.get(address, headers={"range": "bytes=10-12"})
            assert (piece.status_code, piece.content) == (206, bytes([10, 11, 12]))
            assert piece.headers["content-range"] == "bytes 10-12/2048"
            assert (await client.get(address, headers={"range": "bytes=5000-"})).status_code == 416
            for missing in ("1", "2", "9", "-1", "a"):
                assert (await client.get(f"/dashboard/transcodes/{job_id}/{missing}")).status_code == 404
            assert (await stranger.get(address)).status_code == 404
            assert "There is no transcode yet" in text_of(await page(stranger, "/dashboard/transcodes"))
