"""A pytest plugin for the runs inside a run: refuses to test any other copy of Euterpe than the one that was meant.

Hypothesis stops at the first example that fails: a planted bug has been caught then, and nobody reads the smallest one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import Phase, settings

import euterpe

VARIABLE = "EUTERPE_PLANTED_SOURCE"


def pytest_configure(config: pytest.Config) -> None:
    wanted = Path(os.environ[VARIABLE]).resolve()
    if wanted not in Path(euterpe.__file__).resolve().parents:
        raise pytest.UsageError(f"euterpe was loaded from {euterpe.__file__} and not from {wanted}")
    steady = settings.get_profile("steady")  # that of tests/conftest.py: a bug is caught every time or never
    settings.register_profile("planted", steady, phases=(Phase.explicit, Phase.generate))
    settings.load_profile("planted")
