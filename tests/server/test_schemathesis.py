"""schemathesis reads /openapi.json and tries to prove it a lie: no 5xx, no answer outside the document, no open door.

`positive_data_acceptance` is left out: rules between fields (a concurrency limit goes with its key, a duration has a
unit, a header agrees with its field) cannot be said in a schema, so some of what it calls valid is rightly refused.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.plane import plane_process, running_plane
from tests.server.test_auth import NEEDS, OPEN

SEED = "20261115"
REFUSALS = """[checks]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 409, 413, 415, 422, 428, 429, 503]
"""
"""A body that is too long as well as wrong is refused for its length, unread."""
EXAMPLES = "12"


async def new_key(url: str) -> str:
    async with running_plane(url) as plane:
        return await plane.key("submit", "read", "worker", "admin", requester="fuzz")


@pytest.mark.timeout(300)
def test_the_document_is_true_and_no_input_makes_a_5xx(url: str, tmp_path: Path) -> None:
    key = asyncio.run(new_key(url))
    (tmp_path / "schemathesis.toml").write_text(REFUSALS)
    # /events answers without an end, which schemathesis would wait for; test_events.py looks at it.
    with plane_process(url, "--max-wait-ms", "5") as plane:
        run = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", "run", f"{plane.base_url}/openapi.json", "--no-color",
             "--header", f"Authorization: Bearer {key}", "--exclude-path", "/events",
             "--checks", "all", "--exclude-checks", "positive_data_acceptance",
             "--phases", "examples,coverage,fuzzing", "--max-examples", EXAMPLES, "--seed", SEED,
             "--generation-database", "none", "--suppress-health-check", "all", "--continue-on-failure",
             "--request-timeout", "30"],
            cwd=tmp_path,
            env=os.environ | {"SCHEMATHESIS_HOOKS": "", "NO_PROXY": "*"},
            capture_output=True,
            text=True,
            timeout=280,
        )  # fmt: skip
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    tested = len(NEEDS) + len(OPEN) - 2  # all but /events, which never ends, and /metrics, which this server has not
    assert f"Tested: {tested}" in run.stdout, run.stdout[-2000:]
