"""The README as a package index shows it, where links into the repository lead nowhere. A metadata hook of hatchling.

With `Source` in `[project.urls]` they become absolute. Without it they become the text and the path of the file, which
the source distribution holds, and pictures are left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE_PICTURE = re.compile(r"^!\[[^\]]*\]\((?![a-z]+:)[^)\s]+\)\n", re.MULTILINE)
RELATIVE_LINK = re.compile(r"\[([^\]]*)\]\((?![a-z]+:|#|/)([^)\s]+)\)")


def for_an_index(text: str, source: str | None) -> str:
    if source is not None:
        return RELATIVE_LINK.sub(lambda found: f"[{found[1]}]({source}/blob/main/{found[2]})", text)
    return RELATIVE_LINK.sub(lambda found: f"{found[1]} (`{found[2]}`)", RELATIVE_PICTURE.sub("", text))


class IndexReadme(MetadataHookInterface):
    """Sets the field `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_an_index(text, source)}
