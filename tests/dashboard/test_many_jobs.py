"""Failures by cause, and acts on everything that matches."""

from __future__ import annotations

import json
import re

from euterpe.model.bulk import OperationState
from euterpe.model.claims.outcome import Failed
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.reading.views import Search
from tests.dashboard.site import Site, form_token, text_of


async def failing(site: Site, message: str, count: int, **said: object) -> None:
    for i in range(count):
        await site.submit(max_attempts=1, **said)
        await site.run(Failed(Failure(Category.PERMANENT, message.format(i), code="Broken")))


async def test_failures_are_lines_by_cause_and_one_group_is_replayed_once(either_site: Site) -> None:
    site = either_site
    await failing(site, "no template {}", 3)
    await failing(site, "=cmd|' /C calc'!A0", 1, type="=2+2")
    async with site.visitor() as client:
        page = (await client.get("/dashboard/failures")).text
        text = text_of(page)
        assert "3 report.render Broken (permanent): no template" in text
        assert page.count("<tr") == 3
        assert "3 report.render Broken" in text_of((await client.get("/")).text)
        replay = re.search(r'href="(/dashboard/bulk\?action=replay&amp;q=[^"]+)"[^>]*>Replay…<span[^>]*> 3 of', page)
        assert replay is not None
        question = (await client.get(replay[1].replace("&amp;", "&"))).text
        assert "3 jobs match" in text_of(question)
        assert "They failed with report.render: Broken: no template" in text_of(question), "a fingerprint tells nobody"
        form = dict(re.findall(r'name="(action|q|key)" value="([^"]*)"', question)) | {"csrf": form_token(question)}
        ordered = [(await client.post("/dashboard/bulk", data=form)).headers["location"] for _ in range(2)]
        assert ordered[0] == ordered[1], "the same form twice is one operation"
        assert "▶ running" in text_of((await client.get(ordered[0])).text)
        operation_id = ordered[0].rpartition("/")[2]
        while (await site.store.operations.get(operation_id)).state is OperationState.RUNNING:
            await site.store.sweeps.work_operations()
        done = text_of((await client.get(ordered[0])).text)
        assert "✓ completed" in done
        assert "Done 3" in done
        assert "They had failed with report.render: Broken: no template" in done
        left = text_of((await client.get("/dashboard/failures")).text)
        assert ("no template" in left, "=cmd" in left) == (False, True), "what runs again needs nobody"
        assert "no template" not in text_of((await client.get("/")).text)
        assert "Replay" in text_of((await client.get("/dashboard/operations")).text)
    replayed = (await site.store.search(Search(type="report.render"))).jobs
    assert [job.replay_of is not None for job in replayed] == [True] * 3 + [False] * 3
    async with site.visitor() as client:
        old = text_of((await client.get(f"/dashboard/jobs/{replayed[0].replay_of}")).text)
        assert f"Runs again as {replayed[0].id[-8:]}" in old


async def test_an_operation_is_stopped_and_a_reader_orders_none(either_site: Site) -> None:
    site = either_site
    await site.submit()
    async with site.visitor() as client, site.visitor("read") as reader:
        question = (await client.get("/dashboard/bulk?action=cancel&q=state:scheduled")).text
        form = dict(re.findall(r'name="(action|q|key)" value="([^"]*)"', question)) | {"csrf": form_token(question)}
        refused = await reader.post("/dashboard/bulk", data=form | {"csrf": form_token((await reader.get("/")).text)})
        assert refused.status_code == 403
        assert (await reader.get("/dashboard/bulk?action=cancel&q=state:scheduled")).status_code == 403
        assert await site.store.operations.list() == []
        for wrong in ({"q": ""}, {"action": "burn"}, {"q": "colour:red"}):
            assert (await client.post("/dashboard/bulk", data=form | wrong)).status_code == 422
        address = (await client.post("/dashboard/bulk", data=form)).headers["location"]
        stopped = await client.post(f"{address}/cancel", data={"csrf": form["csrf"]})
        assert "what was done stays done" in (await client.get(stopped.headers["location"])).text
        listed = (await client.get("/dashboard/jobs?q=state:scheduled")).text
        assert 'href="/dashboard/bulk?action=cancel&amp;q=state%3Ascheduled"' in listed
        assert "dashboard/bulk" not in (await reader.get("/dashboard/jobs?q=state:scheduled")).text


async def test_exports_hold_no_payload_no_formula_and_nobody_elses_jobs(either_site: Site) -> None:
    site = either_site
    await failing(site, "=cmd|' /C calc'!A0", 1, type="=2+2", payload=b'{"password": "hunter2"}')
    await failing(site, "secret of juno", 1, requester_id="juno")
    async with site.visitor("read") as client, site.browser() as nobody:
        table = await client.get("/dashboard/failures/export")
        assert table.headers["content-disposition"] == 'attachment; filename="failures.csv"'
        assert "'=2+2" in table.text
        assert not re.search(r'(^|,)"?=', table.text, re.MULTILINE)
        lines = (await client.get("/dashboard/failures/export?q=state:failed")).text.splitlines()
        assert [json.loads(line)["error"]["code"] for line in lines] == ["Broken"]
        assert "hunter2" not in table.text + "".join(lines)
        assert "juno" not in table.text + "".join(lines)
        assert (await nobody.get("/dashboard/failures/export?q=state:failed")).status_code == 303
