"""The lease keeper's process: `python -m euterpe.lease_keeper`, started by a worker, never by hand."""

from __future__ import annotations

import sys
from typing import Final

COMMAND: Final = (sys.executable, "-m", "euterpe.lease_keeper")
