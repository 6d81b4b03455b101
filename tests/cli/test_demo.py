"""`./run demo` is a promise to strangers, so it is played to its end."""

from __future__ import annotations

import subprocess

import pytest

from tests.cli.commands import EUTERPE, Shell


@pytest.mark.timeout(240)
def test_the_demo_proves_what_it_says_and_leaves_nothing_behind(bare_shell: Shell) -> None:
    (bare_shell.folder / "tmp").mkdir()
    done = subprocess.run(
        [*EUTERPE, "demo"],
        cwd=bare_shell.folder,
        env=bare_shell.environ | {"TMPDIR": str(bare_shell.folder / "tmp")},
        capture_output=True,
        text=True,
        timeout=220,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    proofs = [line.split()[0] for line in done.stdout.splitlines() if line.startswith(("  ok ", "  FAIL "))]
    assert proofs == ["ok"] * 16
    told = " ".join(done.stdout.split())
    for words in (
        "nothing was lost",
        "each job completed exactly once",
        "the killed worker's jobs were recovered",
        "retried with backoff",
        "the fan-in waited",
        "late write bounced",
        "webhooks came signed",
        "the transcode that lost its worker",
        "credentials ran out twice",
        "credential_version went from 1",
        "the upload whose second part was refused went on",
        "3 of 3 outputs lie in S3 with the checksum",
        "none of the 4 secrets was in the database",
    ):
        assert words in told
    assert list((bare_shell.folder / "tmp").iterdir()) == []
    assert sorted(entry.name for entry in bare_shell.folder.iterdir()) == ["app.py", "tmp"]
