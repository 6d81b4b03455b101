"""Who this worker is: a readable name for people, and a UUID that is new with every process.

A pod that restarts keeps its name; without the UUID it would look alive in place of its dead self, and its
orphaned jobs would never be reclaimed.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Mapping

_boot_uuid = uuid.uuid4()
_workers = itertools.count()


def worker_id(environ: Mapping[str, str]) -> str:
    """`POD_NAME`, else `HOSTNAME`, else `worker`, then `:` and this process's UUID."""
    name = environ.get("POD_NAME", "").strip() or environ.get("HOSTNAME", "").strip() or "worker"
    return f"{name}:{_boot_uuid}"


def next_worker_id(environ: Mapping[str, str]) -> str:
    """That of the process for its first worker, and another one for each worker beside or after it: what one of them
    holds when the process dies must be told from what another one holds."""
    first = worker_id(environ)
    return first if next(_workers) == 0 else f"{first.rpartition(':')[0]}:{uuid.uuid4()}"


def _become_another_worker() -> None:
    global _boot_uuid, _workers
    _boot_uuid = uuid.uuid4()
    _workers = itertools.count()


if hasattr(os, "register_at_fork"):  # absent where processes cannot fork
    # Sharing the parent's UUID would let a forked child answer for the parent's leases.
    os.register_at_fork(after_in_child=_become_another_worker)
