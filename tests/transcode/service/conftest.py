"""A service for each test, with a second of music in its local root."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from euterpe.transcode.media.ffmpeg.tools import Tools, find_tools
from tests.transcode.media.making import Media
from tests.transcode.service.studio import Studio, studio_on


@pytest.fixture(scope="session")
def tools() -> Tools:
    return find_tools()


@pytest.fixture(scope="session")
def media(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Media:
    return Media(tmp_path_factory.mktemp("media"), tools)


@pytest.fixture(scope="session")
def tone(media: Media) -> Path:
    return media.tone("tone.wav", seconds=1.0)


def put_source(studio: Studio, source: Path, name: str = "in/a.wav") -> None:
    target = studio.root / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


@pytest.fixture
async def studio(sqlite_url: str, tmp_path: Path, tools: Tools, tone: Path) -> AsyncIterator[Studio]:
    async with studio_on(sqlite_url, tmp_path, tools) as running:
        put_source(running, tone)
        yield running
