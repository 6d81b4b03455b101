"""Who gets in, how, and what keeps everybody else out."""

from __future__ import annotations

import re

import httpx
import pytest

from euterpe.model.submitting.submission import Submission
from euterpe.server.http.limits import Limits
from euterpe.server.quotas import Quota
from euterpe.stores.sql.dashboard.sessions import SESSIONS_OF_A_KEY
from tests.dashboard.site import Site, form_token, running_site, signed_in, text_of


async def test_without_a_session_every_page_leads_to_the_sign_in_and_back(site: Site) -> None:
    async with site.browser() as client:
        answer = await client.get("/dashboard/jobs?q=state%3Afailed")
        assert answer.status_code == 303
        assert answer.headers["location"] == "/dashboard/sign-in?next=%2Fdashboard%2Fjobs%3Fq%3Dstate%253Afailed"
        page = await client.get(answer.headers["location"])
        said = {"csrf": form_token(page.text), "key": await site.key(), "next": "/dashboard/jobs?q=state%3Afailed"}
        entered = await client.post("/dashboard/sign-in", data=said)
        assert (entered.status_code, entered.headers["location"]) == (303, "/dashboard/jobs?q=state%3Afailed")
        assert (await client.get(entered.headers["location"])).status_code == 200


@pytest.mark.parametrize(
    "elsewhere", ["//evil.example/", "https://evil.example/", "/jobs", "/dashboard/\\x", "/\nx: y"]
)
async def test_signing_in_leads_to_pages_of_the_dashboard_only(site: Site, elsewhere: str) -> None:
    async with site.browser() as client:
        page = await client.get("/dashboard/sign-in")
        said = {"csrf": form_token(page.text), "key": await site.key(), "next": elsewhere}
        location = (await client.post("/dashboard/sign-in", data=said)).headers["location"]
        assert location == "/" or location.startswith("/dashboard/%5C")


async def test_the_cookie_is_out_of_reach_and_changes_at_the_sign_in(either_site: Site) -> None:
    async with either_site.browser() as client:
        before = (await client.get("/dashboard/sign-in")).headers["set-cookie"]
        after = (await signed_in(client, await either_site.key())).headers["set-cookie"]
        assert before.split(";")[0] != after.split(";")[0]
        for cookie in (before, after):
            assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
        assert (await client.get("/")).status_code == 200


async def test_the_cookie_is_secure_behind_tls(site: Site) -> None:
    async with site.browser() as client:
        answer = await client.get("/dashboard/sign-in", headers={"x-forwarded-proto": "https"})
        assert answer.headers["set-cookie"].endswith("; Secure")


async def test_a_key_that_may_not_read_or_is_over_opens_nothing(either_site: Site) -> None:
    site = either_site
    revoked = await site.keys.create_key("vesta", ["read"])
    await site.keys.revoke_key(revoked.record.prefix)
    wrong_secret = (await site.key("read"))[:-4] + "AAAA"
    for key in (await site.key("worker", "submit"), revoked.key, wrong_secret, "nonsense", ""):
        async with site.browser() as client:
            answer = await signed_in(client, key)
            assert answer.status_code == 403
            assert "does not open the dashboard" in answer.text
            assert (await client.get("/")).status_code == 303


async def test_a_revoked_key_ends_its_sessions_and_so_does_signing_out(either_site: Site) -> None:
    site = either_site
    created = await site.keys.create_key("vesta", ["admin"])
    async with site.browser() as client, site.browser() as other:
        await signed_in(client, created.key)
        page = (await client.get("/")).text
        await signed_in(other, created.key)
        assert (await client.post("/dashboard/sign-out", data={"csrf": form_token(page)})).status_code == 303
        assert (await client.get("/")).status_code == 303
        await site.keys.revoke_key(created.record.prefix)
        # The session was never looked at yet, so nothing remembers that its key was good.
        assert (await other.get("/")).status_code == 303


async def test_a_link_signs_in_once(site: Site) -> None:
    created = await site.keys.create_key("vesta", ["admin"])
    link = site.dashboard.one_time_link(created.record.prefix)
    async with site.browser() as client, site.browser() as late:
        assert (await late.head(link)).status_code == 200, "whoever only looks does not use it up"
        assert (await client.get(link)).headers["location"] == "/"
        assert (await client.get("/")).status_code == 200
        assert "has been used" in (await late.get(link)).text
        assert (await late.get("/")).status_code == 303


async def test_a_form_from_elsewhere_is_refused(site: Site) -> None:
    job_id = await site.submit()
    async with site.visitor() as client, site.visitor() as other:
        own, foreign = form_token((await client.get("/")).text), form_token((await other.get("/")).text)
        address = f"/dashboard/jobs/{job_id}/cancel"
        cross_site = {"sec-fetch-site": "cross-site"}
        refused: list[httpx.Response] = [
            await client.post(address),
            await client.post(address, data={"csrf": foreign}),
            await client.post(address, data={"csrf": own}, headers=cross_site),
            await client.post("/dashboard/sign-out", data={"csrf": "0" * 64}),
            await client.post("/dashboard/sign-in", data={"key": await site.key(), "csrf": foreign}),
        ]
        assert [answer.status_code for answer in refused] == [403] * 5
        assert (await site.store.get(job_id)).state == "scheduled"
        assert (await client.post(address, data={"csrf": own})).status_code == 303
        assert (await site.store.get(job_id)).state == "cancelled"


async def test_whoever_may_only_read_finds_no_buttons_and_cannot_act(site: Site) -> None:
    job_id = await site.submit()
    async with site.visitor("read") as client:
        page = (await client.get(f"/dashboard/jobs/{job_id}")).text
        assert "read only" in text_of(page)
        assert re.findall(r'action="([^"]+)"', page) == ["/dashboard/jobs", "/dashboard/sign-out"]
        for act in ("cancel", "retry", "replay"):
            answer = await client.post(f"/dashboard/jobs/{job_id}/{act}", data={"csrf": form_token(page)})
            assert answer.status_code == 403
            assert "scope admin" in answer.text
    assert (await site.store.get(job_id)).state == "scheduled"


async def test_a_requester_sees_its_own_jobs_alone(either_site: Site) -> None:
    site = either_site
    own = await site.submit(type="own.type", queue="own-queue")
    foreign = await site.submit(type="foreign.type", queue="foreign-queue", requester_id="juno")
    child = await site.submit(type="foreign.child", requester_id="juno", depends_on=(foreign,))
    async with site.visitor("read") as client, site.visitor("admin") as admin:
        for path in ("/", "/dashboard/jobs", f"/dashboard/jobs?q={foreign}", f"/dashboard/jobs/{own}"):
            page = (await client.get(path)).text
            assert "foreign" not in page.replace(f"jobs?q={foreign}", "").replace(f'value="{foreign}"', "")
        for hidden in (foreign, child):
            assert (await client.get(f"/dashboard/jobs/{hidden}")).status_code == 404
            assert (await admin.get(f"/dashboard/jobs/{hidden}")).status_code == 200
        assert "foreign-queue" in (await admin.get("/")).text


async def test_every_page_forbids_foreign_scripts_frames_and_forms(site: Site) -> None:
    job_id = await site.submit()
    async with site.visitor() as client:
        nonces = set()
        for path in ("/", "/dashboard/jobs", f"/dashboard/jobs/{job_id}", "/dashboard/jobs/nothing"):
            answer = await client.get(path)
            policy = answer.headers["content-security-policy"]
            assert {"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} <= set(
                policy.split("; ")
            )
            assert "unsafe" not in policy
            nonce = re.search(r"script-src 'nonce-([^']+)'", policy)
            assert nonce is not None
            nonces.add(nonce[1])
            scripts = re.findall(r"<script[^>]*>", answer.text)
            assert len(scripts) == 1
            assert f'nonce="{nonce[1]}"' in scripts[0]
            assert not re.search(r"\son\w+=|\sstyle=|javascript:", answer.text)
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-frame-options"] == "DENY"
        assert len(nonces) == 4


async def test_an_address_that_no_page_has_answers_with_a_page_and_a_way_back(site: Site) -> None:
    async with site.visitor() as client, site.browser() as stranger:
        for address in ("/dashboard/nowhere", "/dashboard/jobs/a/b/c", "/dashboard/"):
            missing = await client.get(address)
            assert missing.status_code == 404
            assert missing.headers["content-type"].startswith("text/html")
            assert 'href="/dashboard/jobs"' in missing.text
            assert (await stranger.get(address)).status_code == 303
        programs = await client.get("/nowhere")
        assert (programs.status_code, programs.json()["code"]) == (404, "no_such_route")
        assert (await client.post("/dashboard/nowhere")).status_code == 404


async def test_a_visitor_has_the_rate_of_the_key(sqlite_url: str) -> None:
    async with running_site(sqlite_url, limits=Limits(rate_per_s=0.001, rate_burst=3)) as site:
        async with site.visitor("read") as visitor:
            codes = [(await visitor.get("/dashboard/jobs")).status_code for _ in range(4)]
            assert codes == [200, 200, 200, 429]
            assert (await visitor.get("/dashboard/live/jobs")).status_code == 429
        async with site.visitor("read") as another:
            assert (await another.get("/dashboard/jobs")).status_code == 200


async def test_a_visitor_has_the_quotas_of_the_requester(sqlite_url: str) -> None:
    async with running_site(sqlite_url, limits=Limits(quota=Quota(waiting_jobs=1))) as site:
        submitted = await site.store.submit(Submission(type="t", requester_id="vesta"))
        await site.store.cancel(submitted.job_id, "vesta")
        async with site.visitor("admin") as visitor:
            page = await visitor.get(f"/dashboard/jobs/{submitted.job_id}")
            said = {"csrf": form_token(page.text), "payload": "{}"}
            answers = [
                await visitor.post(f"/dashboard/jobs/{submitted.job_id}/{act}", data=said)
                for act in ("retry", "retry", "replay")
            ]
            assert [answer.status_code for answer in answers] == [303, 429, 429]


async def test_a_key_has_so_many_sessions_and_the_oldest_ends(either_site: Site) -> None:
    site = either_site
    key = await site.key("read")
    async with site.browser() as first, site.browser() as last:
        await signed_in(first, key)
        for _ in range(SESSIONS_OF_A_KEY):
            last.cookies.clear()
            await signed_in(last, key)
        assert (await first.get("/dashboard/jobs")).status_code == 303
        assert (await last.get("/dashboard/jobs")).status_code == 200
