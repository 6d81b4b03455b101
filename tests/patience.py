"""How long a test waits for what must come: long, because a busy machine is no failure.

With a planted bug it often never comes. Such a run waits less, and its verdict is the same: what is waited for here
takes a fraction of a second.
"""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "EUTERPE_TEST_PATIENCE_S"
WITH_A_PLANTED_BUG_S: Final = 10
PATIENCE_S: Final = float(os.environ.get(VARIABLE, "30"))
