"""A small file of keys that only its owner may read: made whole or not at all, whoever starts first."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from euterpe.crypto.errors import InvalidKeyring

_OWNER_ONLY: Final = 0o600
_MAX_BYTES: Final = 64 * 1024


def ensure_key_file(path: Path, content: str) -> None:
    """Write the file unless it is there, or another process is faster; a whole one is there afterwards."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        if path.exists():
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content.encode())
                file.flush()
                os.fsync(descriptor)
            # A link never replaces: of many starters exactly one succeeds, and no reader sees half a file.
            os.link(draft, path)
            _sync_directory(path.parent)
        finally:
            draft.unlink(missing_ok=True)
    except FileExistsError:
        return
    except OSError as error:
        raise InvalidKeyring(f"{path}: the key file could not be made ({error.strerror})") from None


def read_key_file(path: Path) -> dict[str, str]:
    """The NAME=value lines of a key file, which must belong to us and be closed to others."""
    try:
        with path.open("rb") as file:
            _check_closed_to_others(os.fstat(file.fileno()))
            text = file.read(_MAX_BYTES).decode("ascii")
    except OSError as error:
        raise InvalidKeyring(f"the key file could not be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InvalidKeyring("the key file is not plain text") from None
    lines = [line.strip() for line in text.splitlines()]
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    return {name.strip(): value.strip() for name, _, value in pairs}


def _check_closed_to_others(status: os.stat_result) -> None:
    if os.name != "posix":
        return
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise InvalidKeyring(f"others may read the key file (mode {mode:04o}); run chmod 600 on it")
    if status.st_uid not in (os.geteuid(), 0):
        raise InvalidKeyring("the key file belongs to another user; chown it to the user that runs Euterpe")


def _sync_directory(directory: Path) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
