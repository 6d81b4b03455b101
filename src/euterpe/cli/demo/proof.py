"""One thing that a run of the demo proved, or did not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Proof:
    """A claim with the figures that bear it out, and whether they do."""

    holds: bool
    claim: str
