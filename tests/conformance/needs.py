"""Which capabilities a test needs of its engine: `@needs(Capability.CHOSEN_IDS)`."""

from __future__ import annotations

import pytest

from euterpe.model.state import State
from euterpe.ports import Capability


def needs(*capabilities: Capability | str) -> pytest.MarkDecorator:
    return pytest.mark.needs(*capabilities)


TABLES = "tables"
"""Not a promise of the port: the test looks at rows behind it."""


def needed_by(item: pytest.Item) -> set[Capability | str]:
    needed: set[Capability | str] = {what for mark in item.iter_markers("needs") for what in mark.args}
    if "tables" in getattr(item, "fixturenames", ()):
        needed.add(TABLES)
    callspec = getattr(item, "callspec", None)
    if callspec is not None and State.PENDING in callspec.params.values():
        needed.add(Capability.DEPENDENCIES)  # Nothing else keeps a job pending.
    return needed
