"""Which capabilities a test needs of its engine: `@needs(Capability.CHOSEN_IDS)`."""

from __future__ import annotations

import pytest

from euterpe.ports import Capability


def needs(*capabilities: Capability) -> pytest.MarkDecorator:
    return pytest.mark.needs(*capabilities)


def needed_by(item: pytest.Item) -> set[Capability]:
    return {capability for mark in item.iter_markers("needs") for capability in mark.args}
