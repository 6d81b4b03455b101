"""The traceback of a failed attempt as a log line takes it. The exception itself may have been another process's."""

from __future__ import annotations

import re
from typing import Final

from euterpe.model.failures.failure import Failure

_FRAME: Final = re.compile(r'^ *File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
FRAMES: Final = 10


class AttemptTrace(Exception):
    """Handed to a log call as its `exc_info`. Printed by the standard library it shows job, message and stack; our own
    logs show `code` and `places`."""

    def __init__(self, job_type: str, job_id: str, attempt: int, failure: Failure) -> None:
        stack = f"\n{failure.stack}" if failure.stack else ""
        super().__init__(f"{job_type} {job_id}, attempt {attempt}: {failure.message}{stack}")
        self.code = failure.code
        self.places = places_in(failure.stack or "")


def places_in(stack: str) -> list[str]:
    """Innermost first, `file:line in function`: no folders of the machine, no word of the message."""
    found = _FRAME.findall(stack)[-FRAMES:]
    return [f"{_file_name(path)}:{line} in {function}" for path, line, function in reversed(found)]


def _file_name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]
