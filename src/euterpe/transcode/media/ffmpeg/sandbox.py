"""Run as a script: takes limits upon itself and then becomes the program that it was given.

`python -I -S sandbox.py PARENT MEMORY FILE_BYTES CPU_SECONDS NICE PROGRAM ...`. A process of its own, because code
between fork and exec is unsafe in a program with threads. It imports nothing of Euterpe, to start fast.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys

PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
OPEN_FILES = 256
NOT_STARTED = 127
"""The exit code of a shell for a program that is not there; ffmpeg has no error of this number."""
SIGKILL = 9  # the signal module would take as long to load as all the rest


def set_limits(memory_bytes: int, file_bytes: int, cpu_seconds: int) -> None:
    """A write beyond `file_bytes` fails with EFBIG, and the program can say so: Python ignores SIGXFSZ from its start,
    and what is ignored stays so over exec.
    """
    wanted = {
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_CPU: cpu_seconds,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_CORE: 0,
    }
    for kind, amount in wanted.items():
        hard = resource.getrlimit(kind)[1]
        most = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
        resource.setrlimit(kind, (most, most))


def die_with_parent(libc: ctypes.CDLL, parent: int) -> None:
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before we asked to be told
        os._exit(1)


def leave_network(libc: ctypes.CDLL) -> None:
    """An empty network namespace, where the system allows it. The protocol whitelist holds in any case."""
    if libc.unshare(CLONE_NEWNET) == 0:
        return
    user, group = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        return
    maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
    for name, text in maps.items():
        try:
            with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123 - pathlib would double the time to start
                file.write(text)
        except OSError:
            return


def main(arguments: list[str]) -> None:
    parent, memory_bytes, file_bytes, cpu_seconds, nice = (int(word) for word in arguments[:5])
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        die_with_parent(libc, parent)
        leave_network(libc)
    os.nice(nice)
    set_limits(memory_bytes, file_bytes, cpu_seconds)
    program = arguments[5:]
    try:
        os.execv(program[0], program)  # noqa: S606 - becoming the given program is the purpose
    except OSError:
        os._exit(NOT_STARTED)


if __name__ == "__main__":
    main(sys.argv[1:])
