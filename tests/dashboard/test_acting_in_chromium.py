"""Acts on many jobs as a person meets them: from two thousand failures to their cause, and a server that is killed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.claims.outcome import Failed
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.reading.views import Search
from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from tests.dashboard.chromium import Chromium, SiteBeside, faults, in_a_loop_of_its_own
from tests.dashboard.site import Site, running_site

PATIENCE_MS = 60_000
ROOT = Path(__file__).parents[2]
CAUSES = (
    (1_200, "TemplateError", "report {} has no template 'monthly'"),
    (600, "TimeoutError", "no answer from 10.0.0.{} in 30 s"),
    (200, "DiskFull", "cannot write /tmp/{}.pdf"),
)


async def fail_many(site: Site, causes: tuple[tuple[int, str, str], ...]) -> None:
    """As many failed jobs, mixed."""
    failures = [
        Failed(Failure(Category.PERMANENT, message.format(i), code=code, stack=f"{code} in render"))
        for count, code, message in causes
        for i in range(count)
    ]
    said = Submission(type="report.render", requester_id="vesta", max_attempts=1)
    await site.store.submit_many([said] * len(failures))
    claims = await site.store.claim(ClaimRequest(worker_id="w-1", limit=len(failures)))
    await site.store.settle([Report(claim, failure) for claim, failure in zip(claims, failures, strict=True)])


async def replays(site: Site) -> Counter[str]:
    """How often each job was replayed."""
    found: Counter[str] = Counter()
    cursor = None
    while True:
        page = await site.store.search(Search(state=State.SCHEDULED, limit=1000, cursor=cursor))
        found.update(job.replay_of or "none" for job in page.jobs)
        cursor = page.cursor
        if cursor is None:
            return found


class Hand:
    """Clicks, and counts them."""

    def __init__(self) -> None:
        self.clicks = 0

    def click(self, what: Locator) -> None:
        what.click()
        self.clicks += 1


def test_the_cause_of_two_thousand_failures_is_found_and_one_group_replayed_by_clicks_alone(
    chromium: Chromium, beside: SiteBeside
) -> None:
    chromium.visit(lambda _, page: _find_the_cause_and_replay(beside, page))


def _find_the_cause_and_replay(beside: SiteBeside, page: Page) -> None:
    site = beside.site
    beside.do(fail_many(site, CAUSES))
    beside.enter(page)
    hand, began = Hand(), time.monotonic()
    with beside.sweeping():
        hand.click(page.get_by_role("link", name="All failures by cause"))
        rows = page.get_by_role("row").filter(has_text="report.render")
        expect(rows).to_have_count(3)
        worst = rows.filter(has_text="1,200")
        expect(worst).to_contain_text("TemplateError (permanent): report")
        hand.click(worst.get_by_role("link", name="latest"))
        hand.click(page.get_by_text("Stack"))
        expect(page.get_by_text("TemplateError in render")).to_be_visible()
        page.go_back()
        hand.click(worst.get_by_role("link", name="Replay…"))
        expect(page.get_by_text("1,200 jobs match")).to_be_visible()
        hand.click(page.get_by_role("button", name="Replay 1,200"))
        expect(page.get_by_text("✓completed")).to_be_visible(timeout=PATIENCE_MS)
    print(
        f"2,000 failures: the cause found and 1,200 replayed in {hand.clicks} clicks, {time.monotonic() - began:.1f} s"
    )
    assert hand.clicks == 5
    expect(page.get_by_text("1,200 of 1,200 looked at")).to_be_visible()
    assert faults(page) == []
    replayed = beside.do(replays(site))
    assert (len(replayed), set(replayed.values())) == (1_200, {1})


@contextmanager
def mortal_site(url: str, listener: socket.socket, gate: Path | None) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.dashboard.mortal_site", url, str(listener.fileno()), str(gate or "")],
        pass_fds=(listener.fileno(),),
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"serving\n", "it did not start; its error is above"
        yield process
    finally:
        process.kill()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


def test_a_bulk_replay_goes_on_after_its_server_was_killed_and_the_page_with_it(
    chromium: Chromium, sqlite_url: str, tmp_path: Path
) -> None:
    chromium.visit(lambda _, page: _survive(page, sqlite_url, tmp_path / "gate"))


async def _forty_failures_and_a_key(url: str) -> str:
    async with running_site(url) as site:
        await fail_many(site, ((40, "Broken", "no luck"),))
        return await site.key()


async def _replays_in(url: str) -> Counter[str]:
    async with running_site(url) as site:
        return await replays(site)


def _survive(page: Page, url: str, gate: Path) -> None:
    key = in_a_loop_of_its_own(_forty_failures_and_a_key(url))
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        base_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with mortal_site(url, listener, gate) as victim:
            page.goto(f"{base_url}/")
            page.get_by_label("API key").fill(key)
            page.get_by_role("button", name="Sign in").click()
            page.get_by_role("heading", name="Overview").wait_for()
            page.goto(f"{base_url}/dashboard/bulk?action=replay&q=state:failed")
            page.get_by_role("button", name="Replay 40").click()
            page.wait_for_url("**/dashboard/operations/*")
            expect(page.get_by_text("10 of 40 looked at")).to_be_visible(timeout=PATIENCE_MS)
            page.evaluate("() => { window.loadedOnce = true; }")
            gate.touch()
            victim.wait(60)
        expect(page.get_by_text("▶running")).to_be_visible()
        with mortal_site(url, listener, None):
            expect(page.get_by_text("✓completed")).to_be_visible(timeout=PATIENCE_MS)
            expect(page.get_by_text("40 of 40 looked at")).to_be_visible()
            assert page.evaluate("() => window.loadedOnce"), "it was not loaded anew"
    replayed = in_a_loop_of_its_own(_replays_in(url))
    assert (len(replayed), set(replayed.values())) == (40, {1})
