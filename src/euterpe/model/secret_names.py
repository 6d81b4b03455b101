"""Names whose values are secrets: they are hidden in logs and on pages."""

from __future__ import annotations

import re
from typing import Final

_SECRET: Final = re.compile(
    r"pass(word|wd|phrase)?$|secret|token$|api_?key|access_?key|private_?key|credential|authorization|^auth$|cookie|signature",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    return _SECRET.search(name) is not None
