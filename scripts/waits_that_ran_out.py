"""Names the failed tests of a run (`--junitxml`), one a line, if every one of them failed because a wait ran out.

A wait that runs out while the machine is busy with something else proves nothing, so `.ci/run` runs such tests again,
alone. Any other failure, or many of these, means that the run failed: this script says so and exits with 1.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

AT_MOST: Final = 5
RAN_OUT: Final = ("TimeoutError", "Failed: Timeout", "AssertionError: waited ")


def main(report: Path) -> int:
    names: list[str] = []
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314  # pytest wrote it
        for failure in (*case.iter("failure"), *case.iter("error")):
            name = f"{case.get('file')}::{case.get('name')}"
            if not (failure.get("message") or "").startswith(RAN_OUT):
                print(f"{name} failed, and not because a wait ran out", file=sys.stderr)
                return 1
            names.append(name)
    if not 0 < len(names) <= AT_MOST:
        print(f"{len(names)} tests failed; at most {AT_MOST} are run again", file=sys.stderr)
        return 1
    print("\n".join(names))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
