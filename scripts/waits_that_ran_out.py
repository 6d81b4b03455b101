"""Names the failed tests of a run (`--junitxml`), one a line, if every one of them failed because a wait ran out.

A wait that runs out while the machine is busy with something else proves nothing, so `.ci/run` runs such tests again,
alone. Any other failure, or many of these, means that the run failed: this script says so and exits with 1.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

AT_MOST: Final = 5
RAN_OUT: Final = re.compile(
    r"""
    (failed\ on\ (setup|teardown)\ with\ ")?        # of a fixture, which waits too
    (
        (playwright\._impl\._errors\.|redis\.exceptions\.)?TimeoutError
      | Failed:\ Timeout                            # of pytest-timeout
      | subprocess\.TimeoutExpired
      | httpx\.(Connect|Read|Write|Pool)Timeout
    )\b
    """,
    re.VERBOSE,
)


def main(report: Path) -> int:
    names: list[str] = []
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314  # pytest wrote it
        for failure in (*case.iter("failure"), *case.iter("error")):
            name = _name_of(case)
            if not RAN_OUT.match(failure.get("message") or ""):
                print(f"{name} failed, and not because a wait ran out", file=sys.stderr)
                return 1
            if name not in names:
                names.append(name)
    if not 0 < len(names) <= AT_MOST:
        print(f"{len(names)} tests failed; at most {AT_MOST} are run again", file=sys.stderr)
        return 1
    print("\n".join(names))
    return 0


def _name_of(case: ElementTree.Element) -> str:
    """As pytest takes it; a test of a class has the class in its name."""
    file, known_as = case.get("file") or "", case.get("classname") or ""
    classes = known_as.removeprefix(file.removesuffix(".py").replace("/", ".")).split(".")[1:]
    return "::".join([file, *classes, case.get("name") or ""])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
