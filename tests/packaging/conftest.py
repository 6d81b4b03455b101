"""The built package and an environment with the core alone, once a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.installing import Environment, build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the sdist."""
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def core(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """`pip install euterpe-queue` and nothing more."""
    return Environment(tmp_path_factory.mktemp("core") / "env", built[0])
