"""Which ffmpeg and ffprobe are used. Without an ffprobe PyAV describes files, in a child process (ADR 020)."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from euterpe.model.failures.failure import Category
from euterpe.transcode.media.errors import MediaError

log = logging.getLogger("euterpe.transcode")

FFMPEG_VARIABLE = "EUTERPE_FFMPEG"
FFPROBE_VARIABLE = "EUTERPE_FFPROBE"
OLDEST_MAJOR = 6
"""The `fd:` protocol, by which a source is opened and nothing else, came with 6.0."""
INSTALL = "pip install 'euterpe-queue[transcode]'"


@dataclass(frozen=True, slots=True)
class Tools:
    ffmpeg: Path
    ffprobe: Path | None
    """None: PyAV describes files."""
    version: str
    """As ffmpeg says it; equal work is equal only under the same version."""


def find_tools(environment: Mapping[str, str] | None = None) -> Tools:
    """`EUTERPE_FFMPEG`, else the first on the PATH or in the imageio-ffmpeg wheel that is new enough."""
    environment = os.environ if environment is None else environment
    named = _named(environment, FFMPEG_VARIABLE)
    ffmpeg, version = (named, _version_of(named)) if named else _newest_enough(environment)
    ffprobe = _find_ffprobe(ffmpeg, environment)
    if ffprobe is None and pyav_folder() is None:
        raise _missing(f"neither ffprobe nor PyAV is installed; install one with: {INSTALL}")
    return Tools(ffmpeg, ffprobe, version)


def _newest_enough(environment: Mapping[str, str]) -> tuple[Path, str]:
    refusals: list[tuple[Path, MediaError]] = []
    for candidate in _candidates(environment):
        try:
            version = _version_of(candidate)
        except MediaError as error:
            refusals.append((candidate, error))
            continue
        for passed_over, _ in refusals:
            log.warning("an ffmpeg that is too old or does not run was passed over", extra={"place": str(passed_over)})
        return candidate, version
    raise refusals[0][1] if refusals else _missing(f"ffmpeg is not installed; install it with: {INSTALL}")


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    for folder in environment.get("PATH", os.defpath).split(os.pathsep):
        found = shutil.which("ffmpeg", path=folder) if folder else None
        if found:
            yield Path(found).absolute()
    wheel = _wheel_ffmpeg()
    if wheel is not None:
        yield wheel


@lru_cache
def pyav_folder() -> Path | None:
    """Where the package lies. It is never imported here: only the child process that reads hostile files loads it."""
    spec = importlib.util.find_spec("av")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent.parent


def _find_ffprobe(ffmpeg: Path, environment: Mapping[str, str]) -> Path | None:
    beside = ffmpeg.with_name("ffprobe")
    candidates = (
        _named(environment, FFPROBE_VARIABLE),
        beside if _runs(beside) else None,
        _on_path("ffprobe", environment),
    )
    return next((found for found in candidates if found is not None and _speaks_fd(found)), None)


def _named(environment: Mapping[str, str], variable: str) -> Path | None:
    value = environment.get(variable)
    if not value:
        return None
    found = shutil.which(value, path=environment.get("PATH", os.defpath))
    if found is None:
        raise _missing(f"{variable} names no program that can be run")
    return Path(found).absolute()


def _on_path(name: str, environment: Mapping[str, str]) -> Path | None:
    found = shutil.which(name, path=environment.get("PATH", os.defpath))
    return Path(found).absolute() if found else None


def _wheel_ffmpeg() -> Path | None:
    """Found as a file, without importing the package: it would look at the environment and may warn."""
    spec = importlib.util.find_spec("imageio_ffmpeg")
    if spec is None or spec.origin is None:
        return None
    binaries = sorted((Path(spec.origin).parent / "binaries").glob("ffmpeg-*"))
    return next((path for path in binaries if _runs(path)), None)


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _version_of(program: Path) -> str:
    lines = _first_lines(program)
    match = re.match(r"ff(?:mpeg|probe) version (\S+)", lines)
    if match is None:
        raise _missing("the ffmpeg that was found does not run")
    version = match.group(1)
    major = re.match(r"n?(\d+)\.", version)
    if major is not None and int(major.group(1)) < OLDEST_MAJOR:
        raise _missing(f"ffmpeg {version} is too old; {OLDEST_MAJOR}.0 or newer is needed: {INSTALL}")
    return version


def _speaks_fd(ffprobe: Path) -> bool:
    try:
        _version_of(ffprobe)
    except MediaError:
        return False
    return True


def _first_lines(program: Path) -> str:
    try:
        answer = subprocess.run(  # noqa: S603 - the operator's own choice of program
            [program, "-version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout[:2000]


def _missing(message: str) -> MediaError:
    return MediaError("tools.missing", Category.SYSTEM, message)
