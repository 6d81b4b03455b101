"""Programs from outside that prove compatibility. Under CI a missing one fails the run; elsewhere it is
said.
"""

from __future__ import annotations

import os
import shutil

import pytest


def require(program: str) -> str:
    """The program's path, or the end of this test: a failure under CI=true, else a skip that says what is
    lost.
    """
    path = shutil.which(program)
    if path is None:
        missing = f"{program} is not installed, so what it would prove was not checked"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return path
