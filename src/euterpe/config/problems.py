"""What is wrong with a configuration: every bad key at once, so that a file is mended in one go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from euterpe.model.errors import EuterpeError


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One bad key: where it was set and what to write instead. Never holds the value of a secret."""

    key: str
    complaint: str
    source: str = ""

    def __str__(self) -> str:
        place = f" ({self.source})" if self.source else ""
        return f"{self.key}{place}: {self.complaint}"


class ConfigError(EuterpeError):
    """The configuration cannot be used; `problems` names every bad key. The process exits with 2."""

    def __init__(self, problems: Sequence[ConfigProblem]) -> None:
        head = (
            "the configuration has a problem:"
            if len(problems) == 1
            else f"the configuration has {len(problems)} problems:"
        )
        super().__init__("\n  ".join([head, *map(str, problems)]))
        self.problems = tuple(problems)
