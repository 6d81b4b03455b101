"""Ends a test server whose session has died, and removes its folder.

Called as `watchdog.py SESSION_PID SERVER_PID SIGNAL FOLDER` by the session, whose child it must be.
Asking for the parent's id needs no open pipe, which a forked child of the session could keep open after it.
"""

from __future__ import annotations

import os
import shutil
import sys
import time


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def main(session_pid: int, server_pid: int, end_signal: int, folder: str) -> None:
    while os.getppid() == session_pid:
        time.sleep(0.5)
    deadline_s = time.monotonic() + 10
    if is_alive(server_pid):
        os.kill(server_pid, end_signal)
    while is_alive(server_pid) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
