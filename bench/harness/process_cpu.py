"""The CPU time of a process and of everything that it started, also of what has ended."""

from __future__ import annotations

import contextlib

import psutil


def tree_cpu_s(root: psutil.Process) -> float:
    """The time of an ended child is in its parent's counter. A reading during which a child ends would miss that child
    or count it twice, so it is taken again. Raises NoSuchProcess if the root itself has ended."""
    while root.is_running():
        tree = [root, *root.children(recursive=True)]
        with contextlib.suppress(psutil.NoSuchProcess):
            spent_s = sum(sum(process.cpu_times()[:4]) for process in tree)  # Own and children's, user and system.
            if all(process.is_running() for process in tree):
                return spent_s
    raise psutil.NoSuchProcess(root.pid)
