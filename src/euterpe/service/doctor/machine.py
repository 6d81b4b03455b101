"""Facts of this process and its machine: gathered without touching anything."""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
import sys
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from euterpe.backends.diagnosis import redis_in_use
from euterpe.backends.engines import sqlite_path
from euterpe.backends.keychain import key_file_of
from euterpe.config import Config
from euterpe.config.loading import LoadedConfig
from euterpe.model.diagnosis.facts import DiskFact, MachineFacts, SqliteFacts
from euterpe.service.bootstrap import KEY_SUFFIX
from euterpe.service.components.transcoding import is_wanted

DRIVERS: Final = {"postgresql": "asyncpg", "postgres": "asyncpg", "libsql": "libsql"}
MOUNTS: Final = Path("/proc/mounts")
OTHERS: Final = stat.S_IRGRP | stat.S_IROTH


def machine_facts(loaded: LoadedConfig, config_path: str | None) -> MachineFacts:
    config = loaded.config
    url = config.engine.url
    transcodes = is_wanted(config, url)
    path = "" if config_path is None else config_path
    keys = [key_file_of(url)]
    if is_sqlite(url):
        keys.append(Path(sqlite_path(url)).with_suffix(KEY_SUFFIX))
    return MachineFacts(
        python=(sys.version_info.major, sys.version_info.minor),
        missing_drivers=_missing_drivers(config),
        transcodes=transcodes,
        ffmpeg_problem=_ffmpeg_problem() if transcodes else "",
        disks=_disks(config, transcodes=transcodes),
        open_files=_open_files(),
        config_file=path,
        config_has_secrets=_has_secrets(loaded),
        config_open_to_others=bool(path) and open_to(Path(path), stat.S_IROTH),
        key_files_open_to_others=tuple(str(key) for key in keys if open_to(key, OTHERS)),
        api_host=config.api.host,
        allowed_hosts=bool(config.api.allowed_hosts),
    )


def _has_secrets(loaded: LoadedConfig) -> bool:
    """Whether a password stands in the file itself, and not in a variable."""
    config = loaded.config
    passwords = {"redis.password": config.redis.password, "engine.url": urlsplit(config.engine.url).password}
    sources = [loaded.sources.get(key, "") for key, password in passwords.items() if password]
    return any(source and not source.startswith("$") for source in sources)


def is_sqlite(url: str) -> bool:
    return urlsplit(url).scheme in ("sqlite", "libsql")


def _missing_drivers(config: Config) -> tuple[str, ...]:
    needed = [DRIVERS.get(urlsplit(config.engine.url).scheme, "")]
    if redis_in_use(config) is not None:
        needed.append("redis")
    return tuple(name for name in needed if name and importlib.util.find_spec(name) is None)


def _ffmpeg_problem() -> str:
    from euterpe.transcode.media.errors import MediaError
    from euterpe.transcode.media.ffmpeg.tools import find_tools

    try:
        find_tools()
    except MediaError as error:
        return error.message
    return ""


def _open_files() -> int:
    """The API raises the soft limit to the hard one itself."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return sys.maxsize
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return sys.maxsize if hard == resource.RLIM_INFINITY else hard


def _disks(config: Config, *, transcodes: bool) -> tuple[DiskFact, ...]:
    paths = [path for path in (config.transcode.local_root, config.transcode.work_dir) if path] if transcodes else []
    if is_sqlite(config.engine.url):
        paths.insert(0, str(Path(sqlite_path(config.engine.url)).parent))
    found: dict[int, DiskFact] = {}
    for path in paths:
        folder = _nearest(Path(path).absolute())
        usage = shutil.disk_usage(folder)
        found.setdefault(folder.stat().st_dev, DiskFact(str(path), usage.total, usage.free))
    return tuple(found.values())


def _nearest(folder: Path) -> Path:
    """The folder, or where it would be made."""
    while not folder.exists():
        folder = folder.parent
    return folder


def open_to(path: Path, mode: int) -> bool:
    """Whether one of these may read it."""
    try:
        return bool(path.stat().st_mode & mode)
    except OSError:
        return False


def with_file(facts: SqliteFacts, path: Path) -> SqliteFacts:
    """What the file says of itself, and where and how it lies."""
    wal = path.with_name(f"{path.name}-wal")
    return msgspec.structs.replace(
        facts,
        wal_bytes=wal.stat().st_size if wal.exists() else 0,
        file_system=file_system_of(path.absolute(), MOUNTS.read_text() if MOUNTS.exists() else ""),
        writable=os.access(path, os.W_OK),
        folder_writable=os.access(path.absolute().parent, os.W_OK),
        open_to_others=open_to(path, stat.S_IROTH) and open_to(path.absolute().parent, stat.S_IXOTH),
    )


def file_system_of(path: Path, mounts: str) -> str:
    """The kind of the mount with the longest beginning of this path; empty where nobody tells."""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) > 2:
            mount = fields[1].replace("\\040", " ")
            if path.is_relative_to(mount) and len(mount) >= len(best):
                best, kind = mount, fields[2]
    return kind
