"""The dashboard as a person meets it: in a real browser, by keyboard and mouse, wide and narrow, light and dark."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from euterpe.model.claims.outcome import Failed
from euterpe.model.failures.failure import Category, Failure
from tests.dashboard.chromium import Chromium, SiteBeside, faults
from tests.dashboard.site import Site

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'"


async def some_of_everything(site: Site) -> dict[str, str]:
    """Jobs of most states, with names that nobody would choose."""
    parent = await site.submit(type="a/b ü")
    await site.complete()
    failed = await site.submit(type=HOSTILE, tags={HOSTILE: HOSTILE}, correlation_id=HOSTILE, depends_on=(parent,))
    failure = Failure(Category.PERMANENT, HOSTILE, code=HOSTILE, stack=HOSTILE)
    await site.run(Failed(failure))
    running = await site.submit(
        payload=b'{"deep": {"a": [1, {"b": null}]}, "s": "x"}', callback_url="http://127.0.0.1:9/"
    )
    await site.claim()
    await site.submit(queue="other", priority=0)
    await site.submit(delay_us=3_600_000_000)
    await site.store.pause("queue", "other")
    (event,) = await site.store.outbox.claim("d-1", 1)
    return {"failed": failed, "running": running, "event": event.id}


def test_signing_in_searching_going_back_and_watching(chromium: Chromium, beside: SiteBeside) -> None:
    chromium.visit(lambda browser, page: _search_and_watch(beside, browser, page))


def _search_and_watch(beside: SiteBeside, browser: Browser, page: Page) -> None:
    site = beside.site
    first = beside.do(site.submit(type="first.kind"))
    beside.enter(page)
    expect(page.get_by_role("link", name="scheduled")).to_contain_text("1")

    page.keyboard.press("/")
    page.keyboard.type("type:first.kind")
    page.keyboard.press("Enter")
    page.wait_for_url("**/dashboard/jobs?q=type%3Afirst.kind")
    page.get_by_role("navigation", name="By state").get_by_role("link", name="failed").click()
    expect(page.get_by_text("No job matches this search.")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("searchbox")).to_have_value("type:first.kind")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/dashboard/jobs/{first}")
    expect(page.get_by_text("No worker is alive: none was heard of")).to_be_visible()
    page.go_back()

    page.goto(f"{site.base_url}/dashboard/jobs")
    page.evaluate("() => { window.loadedOnce = true; }")
    beside.do(site.submit(type="second.kind"))
    expect(page.get_by_role("link", name="second.kind")).to_be_visible()
    assert page.evaluate("() => window.loadedOnce"), "it was not loaded anew"

    page.get_by_role("button", name="Live").click()
    expect(page.get_by_role("button", name="Paused")).to_have_attribute("aria-pressed", "true")
    other = browser.new_context().new_page()
    beside.enter(other)
    other.goto(f"{site.base_url}/dashboard/jobs")
    beside.do(site.submit(type="third.kind"))
    expect(other.get_by_role("link", name="third.kind")).to_be_visible()
    other.context.close()
    assert page.get_by_role("link", name="third.kind").count() == 0
    page.keyboard.press("p")
    expect(page.get_by_role("link", name="third.kind")).to_be_visible()

    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/dashboard/sign-in")


def test_an_admin_cancels_by_button_and_a_reader_has_none(chromium: Chromium, beside: SiteBeside) -> None:
    chromium.visit(lambda browser, page: _cancel_and_replay(beside, browser, page))


def _cancel_and_replay(beside: SiteBeside, browser: Browser, page: Page) -> None:
    job_id = beside.do(beside.site.submit())
    address = f"{beside.site.base_url}/dashboard/jobs/{job_id}"
    reader = browser.new_context().new_page()
    beside.enter(reader, "read")
    reader.goto(address)
    expect(reader.get_by_text("read only")).to_be_visible()
    assert reader.locator("main button").count() == 0
    reader.context.close()
    beside.enter(page)
    page.goto(address)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("status")).to_have_text("The job is cancelled.")
    page.get_by_text("Replay with another payload…").click()
    page.get_by_label("The payload of the new job").fill('{"n": 7}')
    page.get_by_role("button", name="Submit as a new job").click()
    expect(page.get_by_role("status")).to_have_text("This is a new job with the same request.")
    expect(page.get_by_text("n: 7")).to_be_visible()


@pytest.mark.timeout(300)
def test_axe_finds_nothing_on_any_page_wide_or_narrow_light_or_dark(chromium: Chromium, beside: SiteBeside) -> None:
    chromium.visit(lambda _, page: _judge_every_page(beside, page))


def _judge_every_page(beside: SiteBeside, page: Page) -> None:
    site = beside.site
    page.goto(f"{site.base_url}/dashboard/sign-in")
    assert faults(page) == []
    page.on("dialog", lambda dialog: pytest.fail(f"a script of the data ran: {dialog.message}"))
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    beside.enter(page)
    assert faults(page) == [], "an empty house"
    made = beside.do(some_of_everything(site))
    paths = (
        "/",
        "/dashboard/jobs",
        "/dashboard/jobs?q=state:failed",
        f"/dashboard/jobs/{made['failed']}",
        f"/dashboard/jobs/{made['running']}",
        "/dashboard/failures",
        "/dashboard/queues",
        "/dashboard/webhooks",
        f"/dashboard/webhooks/{made['event']}",
        "/dashboard/bulk?action=retry&q=state:failed",
        "/dashboard/operations",
        "/dashboard/transcodes",
        "/dashboard/jobs/nothing",
    )
    for i, path in enumerate(paths):
        page.emulate_media(color_scheme="dark" if i % 2 else "light")
        page.goto(site.base_url + path)
        assert faults(page) == [], path
        page.emulate_media(color_scheme="light" if i % 2 else "dark")
        page.set_viewport_size({"width": 360, "height": 740})
        assert faults(page) == [], f"{path}, narrow"
        wide = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{path} scrolls sideways on a phone"
        page.set_viewport_size({"width": 1280, "height": 800})
    assert [told for told in said if "Content Security Policy" in told] == []
