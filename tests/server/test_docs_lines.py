"""docs/http.md promises lines that work as pasted: they are pasted here, all into one shell, and looked at."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess

import pytest

from tests.server.plane import ROOT, is_ci, plane_process, running_plane


def pasted() -> str:
    """Every `sh` block of the page, in order."""
    page = (ROOT / "docs" / "http.md").read_text()
    return "\n".join(re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))


async def new_key(url: str) -> str:
    async with running_plane(url) as plane:
        return await plane.key("submit", "read", "worker")


def test_the_lines_of_the_page_work_as_pasted(sqlite_url: str, tmp_path: object) -> None:
    missing = [tool for tool in ("bash", "curl", "jq") if shutil.which(tool) is None]
    if missing:
        said = f"could not run: {', '.join(missing)} is not installed here"
        pytest.fail(said) if is_ci() else pytest.skip(said)
    key = asyncio.run(new_key(sqlite_url))
    script = pasted().replace("/tmp/", f"{tmp_path}/")
    with plane_process(sqlite_url) as plane:
        environment = os.environ | {"EUTERPE_URL": plane.base_url, "EUTERPE_KEY": key}
        run = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script], env=environment, capture_output=True, text=True, timeout=60
        )
    assert run.returncode == 0, run.stderr
    out = run.stdout
    assert out.count('"type":"report.render"') >= 3
    assert '"state": "scheduled"' in out
    assert '["etl.extract","scheduled"]' in out
    assert '["etl.load","pending"]' in out
    assert '"claimed": true' in out
    assert '"cancel_requested":false' in out
    assert out.count('{"ok":true,"ack":true}') == 2
    assert '{"ok":true,"ack":true,"requeued":true,"dlq":false}' in out
    assert '{"complete":[],"fail":[],"heartbeat":[],"claimed":false,"jobs":[]}' in out
    assert '"pointer": "/delay"' in out
    assert ": listening" in out
