"""Where requesters send fresh credentials: a worker warns if only its own machine can reach the address."""

from __future__ import annotations

from dataclasses import replace

import pytest

from euterpe.config import Config
from euterpe.transcode.setup import is_update_url_unreachable

FILE, SERVER = "sqlite:///jobs.db", "postgresql://db/jobs"


@pytest.mark.parametrize(
    ("host", "public_url", "url", "warns"),
    [
        ("127.0.0.1", "", FILE, False),  # `./run`: requesters are on this machine
        ("127.0.0.1", "", SERVER, True),
        ("localhost", "", SERVER, True),
        ("0.0.0.0", "", FILE, True),  # noqa: S104  # as an image has it
        ("::", "", SERVER, True),
        ("api.internal", "", SERVER, False),
        ("0.0.0.0", "https://euterpe.example.com", SERVER, False),  # noqa: S104  # likewise
    ],
)
def test_an_address_that_nobody_else_reaches_is_warned_of(host: str, public_url: str, url: str, *, warns: bool) -> None:
    base = Config()
    config = replace(base, api=replace(base.api, host=host), transcode=replace(base.transcode, public_url=public_url))
    assert is_update_url_unreachable(config, url) is warns
