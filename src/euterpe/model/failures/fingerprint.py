"""What failures have in common: the type of the job and its error, without what differs from job to job.

Two thousand failures with three causes have three fingerprints. Ids, numbers, quoted text, addresses and paths of a
message are the job's own, and are replaced.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

READ_UP_TO: Final = 1_000
"""Characters of a message. What differs only behind them is one cause."""
LENGTH: Final = 12
FINGERPRINT: Final = re.compile(rf"[0-9a-f]{{{LENGTH}}}", re.ASCII)

# Each alternative is linear: no two parts of one can match the same text.
_OWN: Final = re.compile(
    r"""
      (?P<url>[a-z][a-z0-9+.-]{1,20}://[^\s"'<>]+)
    | (?P<email>[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]{1,64})
    | (?P<text>(?<!\w)(?:"[^"\n]*"|'[^'\n]*'|`[^`\n]*`)(?!\w))
    | (?P<path>(?:\b[\w.~-]{1,64})?(?:[/\\][\w.@%+~-]+)+[/\\]?)
    | (?P<id>\b(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|0x[0-9a-f]+|(?=\w{0,40}\d)(?:[0-9a-f]{6,}|\w{16,}))\b)
    | (?P<number>\d+(?:[.,:]\d+)*)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SEVERAL: Final = re.compile(r"(<[a-z]+>)(?:[\s,;]+\1)+")
_SPACE: Final = re.compile(r"\s+")


def normalised(message: str) -> str:
    """The message with what is a job's own replaced by its kind: `order <number> of <text>`."""
    cut = _SPACE.sub(" ", message[:READ_UP_TO]).strip()
    return _SEVERAL.sub(r"\1", _OWN.sub(lambda match: f"<{match.lastgroup}>", cut))


def fingerprint_of(job_type: str, code: str, message: str) -> str:
    """Of one failure; equal for failures that have one cause."""
    text = "\0".join((job_type, code, normalised(message)))
    return hashlib.blake2s(text.encode(errors="replace"), digest_size=LENGTH // 2).hexdigest()
