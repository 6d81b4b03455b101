"""`python -m euterpe.cli.reload.child FD ARGUMENTS`: the command line in a process that ends with its parent."""

from __future__ import annotations

import os
import signal
import sys
import threading

from euterpe.cli import main


def end_with_parent(pipe: int) -> None:
    os.read(pipe, 1)  # Nobody ever writes: it returns when the parent is gone.
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, args=(int(sys.argv.pop(1)),), name="euterpe-parent", daemon=True).start()
    main()
