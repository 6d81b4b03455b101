"""Shared by the webhook tests."""

from __future__ import annotations

import time

import pytest


@pytest.fixture
def now_s() -> int:
    """The real time, for code that asks the real clock and takes five minutes of skew."""
    return int(time.time())
