"""The site: every page is in its nav, every link leads somewhere, every example is named, the reference is whole."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import euterpe
from tests.docs.pages import DOCS, ROOT, name_of, pages

GENERATED = "reference.md"


def in_nav(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        for target in entry.values():
            yield from in_nav(target) if isinstance(target, list) else [target]


def test_every_page_is_in_the_nav_once() -> None:
    nav = list(in_nav(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))
    assert len(nav) == len(set(nav))
    there = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} | {GENERATED}
    assert sorted(there - set(nav)) == [], "put these pages into the nav of zensical.toml"
    assert sorted(set(nav) - there) == [], "these are in the nav of zensical.toml, and are no pages"


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        if path == GENERATED:
            continue
        if not found.exists() or (anchor and found.suffix == ".md" and anchor not in anchors(found)):
            broken.append(target)
    assert broken == []


def test_every_example_is_named_on_a_page() -> None:
    text = "\n".join(page.read_text() for page in pages())
    files = [file.name for file in (ROOT / "examples").iterdir() if file.is_file()]
    assert [name for name in files if name not in text] == []


def test_the_reference_has_every_public_name_and_no_page_of_the_site_links_out_of_it(tmp_path: Path) -> None:
    prepare = [sys.executable, str(ROOT / "scripts" / "site_pages.py"), str(tmp_path / "pages")]
    subprocess.run(prepare, capture_output=True, timeout=60, check=True)
    made = (tmp_path / "pages" / "reference.md").read_text()
    missing = [name for name in euterpe.__all__ if f"### {name}\n" not in made]
    assert missing == []
    assert "#### Queue.submit\n" in made
    assert 'job = await queue.submit("report.render", {"report_id": 7}' in made
    for page in (tmp_path / "pages").rglob("*.md"):
        for target in re.findall(r"\]\(([^)\s#]+)", without_code(page.read_text())):
            assert re.match(r"[a-z]+:", target) or (page.parent / target).exists(), f"{page.name}: {target}"


FOR_USERS = [page for page in pages() if "adr" not in page.parts]
INTERNAL = re.compile(r"(?<![\w.,/-])(?<!ADR )00\d(?![\w-])|\b(?:seed|rule|section) \d", re.IGNORECASE)
ELSEWHERE = ("https://www.sqlite.org/", "https://www.standardwebhooks.com")
"""The only addresses that pages link to. This project has no public address, so none may stand here."""


@pytest.mark.parametrize("page", FOR_USERS, ids=name_of)
def test_no_page_quotes_the_numbers_of_internal_documents(page: Path) -> None:
    assert INTERNAL.findall(page.read_text()) == []


@pytest.mark.parametrize("page", FOR_USERS, ids=name_of)
def test_no_page_links_to_an_address_that_nobody_checked(page: Path) -> None:
    links = re.findall(r"\]\((https?://[^)\s]+)\)", page.read_text())
    assert [link for link in links if not link.startswith(ELSEWHERE)] == []


def test_the_package_names_no_address_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "urls" not in project, "name the real address in the README, in zensical.toml and here, and change this test"
