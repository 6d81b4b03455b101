"""Checks of this process and the machine that it runs on."""

from __future__ import annotations

from typing import Final

from euterpe.model.diagnosis.facts import DiskFact, MachineFacts
from euterpe.model.diagnosis.finding import Check, Complaint, error, warning
from euterpe.service.doctor.wording import listed

OLDEST_PYTHON: Final = (3, 11)
LOW_BYTES: Final = (1_000_000_000, 200_000_000)
LOW_SHARE: Final = (0.05, 0.01)
FEW_FILES: Final = 1_024
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


def python(facts: MachineFacts) -> Complaint | None:
    if facts.python >= OLDEST_PYTHON:
        return None
    return error(f"Python {facts.python[0]}.{facts.python[1]} is too old", "use Python 3.11 or newer")


def drivers(facts: MachineFacts) -> Complaint | None:
    if not facts.missing_drivers:
        return None
    return error(
        f"not installed, and the configuration needs it: {listed(list(facts.missing_drivers))}",
        f"pip install {facts.missing_drivers[0]}",
    )


def ffmpeg(facts: MachineFacts) -> Complaint | None:
    if not facts.transcodes or not facts.ffmpeg_problem:
        return None
    return error(
        f"transcoding is on, and {facts.ffmpeg_problem}", "install ffmpeg 6 or newer, or set transcode.enabled: false"
    )


def disk_space(facts: MachineFacts) -> Complaint | None:
    low = [disk for disk in facts.disks if _is_low(disk, 0)]
    if not low:
        return None
    worst = min(low, key=lambda disk: disk.free)
    complain = error if _is_low(worst, 1) else warning
    return complain(
        f"{worst.place} has {worst.free / 1e6:,.0f} MB left of {worst.total / 1e9:,.0f} GB",
        "make room; a full disk stops every write, and shorter retention keeps the database small",
    )


def _is_low(disk: DiskFact, level: int) -> bool:
    return disk.free < LOW_BYTES[level] or disk.free < LOW_SHARE[level] * disk.total


def open_files(facts: MachineFacts) -> Complaint | None:
    if facts.open_files > FEW_FILES:
        return None
    return warning(
        f"this process may open {facts.open_files:,} files, which bounds its connections",
        "ulimit -n 65536, or LimitNOFILE=65536 in its systemd unit",
    )


def config_privacy(facts: MachineFacts) -> Complaint | None:
    if not (facts.config_has_secrets and facts.config_open_to_others):
        return None
    return warning(
        f"{facts.config_file} holds passwords, and every user of this machine may read it",
        f"chmod 600 {facts.config_file}",
    )


def key_files(facts: MachineFacts) -> Complaint | None:
    if not facts.key_files_open_to_others:
        return None
    names = list(facts.key_files_open_to_others)
    return error(f"others may read {listed(names)}", f"chmod 600 {names[0]}")


def exposed_api(facts: MachineFacts) -> Complaint | None:
    if facts.api_host in LOOPBACK or facts.allowed_hosts:
        return None
    return warning(
        f"api.host is {facts.api_host}, which others reach, and api.allowed_hosts names no host",
        "set api.allowed_hosts, and put TLS in front",
    )


CHECKS: Final[tuple[Check[MachineFacts], ...]] = (
    Check("python_version", "Python is new enough", python),
    Check("drivers", "the drivers of the configuration are installed", drivers),
    Check("ffmpeg", "ffmpeg is there, or nobody transcodes", ffmpeg),
    Check("disk_space", "the disks have room", disk_space),
    Check("open_files", "enough files may be open", open_files),
    Check("config_privacy", "the configuration keeps its secrets", config_privacy),
    Check("key_file_privacy", "key files are for their user alone", key_files),
    Check("exposed_api", "the API listens where it should", exposed_api),
)
