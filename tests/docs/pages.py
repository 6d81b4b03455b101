"""The pages of the documentation and the code in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```(?P<language>\w*)(?P<said>[^\n]*)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, the file that it is (`title=`), and where it stands."""

    language: str
    title: str | None
    text: str
    line: int


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def name_of(page: Path) -> str:
    return str(page.relative_to(DOCS) if page.is_relative_to(DOCS) else page.relative_to(ROOT))


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    found = []
    for match in FENCE.finditer(text):
        title = re.search(r'title="([^"]+)"', match["said"])
        line = text.count("\n", 0, match.start()) + 2
        found.append(Block(match["language"], title[1] if title else None, match["text"], line))
    return found
