"""The README as a package index shows it: links into the repository become absolute. A metadata hook of hatchling."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE_LINK = re.compile(r"\]\((?![a-z]+:|#|/)([^)\s]+)\)")


def with_absolute_links(text: str, base: str) -> str:
    return RELATIVE_LINK.sub(lambda found: f"]({base}/{found.group(1)})", text)


class IndexReadme(MetadataHookInterface):
    """Sets the field `readme`; the address of the repository stands in `project.urls` alone."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        base = f"{metadata['urls']['Source']}/blob/main"
        metadata["readme"] = {"content-type": "text/markdown", "text": with_absolute_links(text, base)}
