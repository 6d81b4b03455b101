"""The command line. `main` is what the `euterpe` script calls; every command is a file that loads when it is used."""

from __future__ import annotations

import sys

from euterpe.model.errors import EuterpeError, MissingExtra
from euterpe.model.extras import needing

BAD_USAGE = 2
FAILED = 1


def main() -> None:
    """Run the command line. An error of ours is one clear line, never a traceback."""
    try:
        with needing("this command"):
            from euterpe.cli.main import root

            root(prog_name="euterpe")
    except MissingExtra as error:
        sys.exit(f"euterpe: {error}")  # the package that prints for us may be the missing one
    except EuterpeError as error:
        sys.exit(complain(error))


def complain(error: EuterpeError) -> int:
    """Say what is wrong; returns the exit code: 2 for a bad configuration, else 1."""
    from euterpe.cli.output import note
    from euterpe.config import ConfigError

    if isinstance(error, ConfigError):
        for line in f"euterpe: {error}".split("\n"):
            note(line)
        return BAD_USAGE
    note(f"euterpe: {' '.join(str(error).split())}")
    return FAILED
