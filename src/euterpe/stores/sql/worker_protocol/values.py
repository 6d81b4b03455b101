"""What HTTP workers tell the store, and what it answers them."""

from __future__ import annotations

from typing import Final

from euterpe.model.worker_reports import Reply

REFUSED: Final = Reply()
LOCKED: Final = Reply(stirs=True)
"""Somebody holds the job's row: nothing was written yet. Never told to a worker."""
