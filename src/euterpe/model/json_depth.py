"""How deep JSON may be nested: the readers of JSON recurse, and give up at about 1,000 levels of the whole stack."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Final

from euterpe.model.errors import InvalidInput

MOST_LEVELS: Final = 500
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_STEPS: Final = bytes(1 if c in b"[{" else 255 for c in range(256))
_NO_BRACKET: Final = bytes(c for c in range(256) if c not in b"[]{}")


def is_too_deep(json: bytes) -> bool:
    """More than MOST_LEVELS lists and objects inside each other. Costs nothing for what is too short for that."""
    if len(json) <= 2 * MOST_LEVELS or json.count(b"[") + json.count(b"{") <= MOST_LEVELS:
        return False
    brackets = _STRING.sub(b"", json).translate(_STEPS, _NO_BRACKET)
    return max(accumulate(memoryview(brackets).cast("b")), default=0) > MOST_LEVELS


def check_depth(field: str, json: bytes) -> None:
    """Raises InvalidInput."""
    if is_too_deep(json):
        raise InvalidInput(field, f"is nested deeper than {MOST_LEVELS} levels; flatten it, or send it as bytes")
