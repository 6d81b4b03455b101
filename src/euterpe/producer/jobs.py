"""From a file to the job that names it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from euterpe.model.errors import InvalidInput
from euterpe.model.priority import Priority, parse_priority
from euterpe.model.submitting.submission import Submission
from euterpe.producer.tree import FoundFile

HIGH: Final = "high"


@dataclass(frozen=True, slots=True)
class PriorityByExtension:
    """The name of a file's priority. Upper and lower case of an extension are the same."""

    default: str
    high_extensions: tuple[str, ...]

    def name_of(self, path: str) -> str:
        lowered = path.lower()
        return HIGH if any(lowered.endswith(extension.lower()) for extension in self.high_extensions) else self.default


def level_of(name: str, ranking: Sequence[str]) -> Priority:
    """The level of a priority's name; a name of the user's own counts by its rank among `worker.priorities`."""
    try:
        return parse_priority(name)
    except InvalidInput:
        if name not in ranking or len(ranking) == 1:
            return Priority.NORMAL
        return Priority(Priority.HIGH + round(2 * ranking.index(name) / (len(ranking) - 1)))


def file_jobs(
    root: Path, job_type: str, priority: PriorityByExtension, ranking: Sequence[str], queue_of: Callable[[str], str]
) -> Callable[[FoundFile], Submission]:
    """Jobs for a handler of the user's: `async def handle(ctx, filepath: str, filesize: int, priority: str)`."""

    def make(file: FoundFile) -> Submission:
        name = priority.name_of(file.path)
        payload = {"filepath": str(root / file.path), "filesize": file.size, "priority": name}
        return Submission(
            type=job_type,
            payload=msgspec.json.encode(payload),
            queue=queue_of(name),
            priority=int(level_of(name, ranking)),
        )

    return make
