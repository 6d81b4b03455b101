"""Under which account a server runs: our own, or an unprivileged one if we are root and it refuses root."""

from __future__ import annotations

import os
import pwd
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Account:
    uid: int
    gid: int

    def can_reach(self, path: Path) -> bool:
        """Whether every folder on the way lets others through; the account owns none of them."""
        resolved = path.resolve()
        return all(folder.stat().st_mode & stat.S_IXOTH for folder in (resolved, *resolved.parents))

    def reachable_temporary_folder(self) -> Path:
        candidates = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
        for folder in candidates:
            if folder.is_dir() and self.can_reach(folder):
                return folder
        raise PermissionError(
            f"uid {self.uid} can reach none of {', '.join(map(str, candidates))}; set TMPDIR to one it can"
        )


def unprivileged_account() -> Account | None:
    """None if we are not root: then the server runs as we do."""
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        return Account(uid=65534, gid=65534)
    return Account(uid=entry.pw_uid, gid=entry.pw_gid)
