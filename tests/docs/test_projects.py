"""Pages that show a whole project: its files are written as they stand, the last one is run, and prints what the page
says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import Block, blocks_of, name_of, pages


def is_file(block: Block) -> bool:
    """A title that is no file name is that of another library's code."""
    return block.title is not None and block.title.endswith(".py")


PROJECTS = {name_of(page): page for page in pages() if any(is_file(block) for block in blocks_of(page))}


@pytest.mark.parametrize("name", PROJECTS)
def test_a_project_of_a_page_prints_what_the_page_says(name: str, tmp_path: Path) -> None:
    blocks = blocks_of(PROJECTS[name])
    files = [block for block in blocks if is_file(block)]
    assert [block.line for block in blocks if block.language == "python" and block.title is None] == []
    for block in files:
        assert block.title is not None
        file = tmp_path / block.title
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text)
    (said,) = (block.text for block in blocks if block.language == "text")
    last = next(block.title for block in reversed(files) if block.language == "python")
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "EUTERPE", "ENGINE"))}
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", str(last)],
        cwd=tmp_path,
        env=environ,
        text=True,
        capture_output=True,
        timeout=100,
    )
    assert (ran.returncode, ran.stdout) == (0, said), ran.stderr
