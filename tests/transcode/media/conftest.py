"""The tools, and media made with them."""

from __future__ import annotations

import pytest

from euterpe.transcode.media.limits import Limits
from euterpe.transcode.media.tools import Tools, find_tools
from tests.transcode.media.making import Media


@pytest.fixture(scope="session")
def tools() -> Tools:
    return find_tools()


@pytest.fixture(scope="session")
def media(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Media:
    return Media(tmp_path_factory.mktemp("media"), tools)


@pytest.fixture
def limits() -> Limits:
    return Limits(timeout_s=60, stall_s=20)
