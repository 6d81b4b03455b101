"""A real Chromium, and a site beside it on a loop of its own."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from typing import Any, TypeVar

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from euterpe.worker.sweeper import Sweeper
from tests.dashboard.site import Site, running_site
from tests.patience import reached

NEEDED = "EUTERPE_TEST_CHROMIUM"
"""Set where a missing browser is a failure: `.ci/run` installs it."""
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")

PATIENCE_MS = 15_000

T = TypeVar("T")


def find_chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        told = "no Chromium is installed (Debian's package `chromium`), so no page was looked at in a browser"
        if os.environ.get(NEEDED):
            pytest.fail(told)
        pytest.skip(told)
    return found


class Chromium:
    """One browser for the session, in a thread of its own: playwright's blocking calls keep a loop running there, and
    every other test of this process wants to start one."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._open = ExitStack()
        self._browser = self._thread.submit(self._start, find_chromium()).result()

    def _start(self, program: str) -> Browser:
        playwright = self._open.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        self._open.callback(browser.close)
        return browser

    def visit(self, act: Callable[[Browser, Page], None]) -> None:
        """Does this with a fresh page, and nobody signed in."""
        self._thread.submit(self._visit, act).result()

    def _visit(self, act: Callable[[Browser, Page], None]) -> None:
        context = self._browser.new_context()
        context.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        try:
            act(self._browser, context.new_page())
        finally:
            context.close()

    def close(self) -> None:
        self._thread.submit(self._open.close).result()
        self._thread.shutdown()


def in_a_loop_of_its_own(act: Coroutine[Any, Any, T]) -> T:
    """Playwright's thread has a running loop already."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, act).result()


class SiteBeside:
    """A site whose loop runs in another thread; `do` runs something there and waits for it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.site: Site

    def __enter__(self) -> SiteBeside:
        self._thread.start()
        reached(self._up, "the site starts")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    def do(self, act: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(act, self._loop).result(30)

    @contextmanager
    def sweeping(self) -> Iterator[None]:
        """Somebody works on what is ordered."""
        assert self.site.store.wakeups is not None
        sweeper = Sweeper(self.site.store.sweeps, self.site.store.wakeups)
        over = asyncio.run_coroutine_threadsafe(sweeper.run(), self._loop)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(sweeper.stop)
            over.result(30)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        async with running_site(self._url) as self.site:
            self._up.set()
            await self._stop.wait()

    def enter(self, page: Page, *scopes: str) -> None:
        """By the form, as a person would."""
        page.goto(f"{self.site.base_url}/")
        page.get_by_label("API key").fill(self.do(self.site.key(*scopes)))
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="Overview").wait_for()


def faults(page: Page) -> list[str]:
    """What axe-core finds wrong with this page. Evaluated from outside, so the page's own policy stays as it is."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text())
    found = page.evaluate("(tags) => axe.run(document, {runOnly: tags})", list(RULES))
    return [f"{fault['id']}: {node['html'][:200]}" for fault in found["violations"] for node in fault["nodes"]]
