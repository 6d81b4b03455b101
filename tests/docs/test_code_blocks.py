"""Every code block of every page: Python is run, other libraries' Python is compiled, shell and data are parsed."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.docs.pages import ROOT, Block, blocks_of, name_of, pages
from tests.docs.scenes import READ_ONLY, RUN_ELSEWHERE, SCENES, usual

PAGES = {name_of(page): page for page in pages()}
SAID = {name: blocks_of(page) for name, page in PAGES.items()}
FRAGMENTS = [
    name
    for name, blocks in SAID.items()
    if name not in RUN_ELSEWHERE and any(block.language == "python" and block.title is None for block in blocks)
]
DATA: dict[str, Callable[[str], object]] = {
    "yaml": YAML(typ="safe", pure=True).load,
    "toml": tomllib.loads,
    "json": json.loads,
}


def blocks_in(*languages: str) -> Iterator[tuple[str, Block]]:
    for name, blocks in SAID.items():
        yield from ((name, block) for block in blocks if block.language in languages)


@pytest.mark.parametrize("name", FRAGMENTS)
async def test_the_fragments_of_a_page_run_in_order(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with SCENES.get(name, usual)(request) as names:
        for block in SAID[name]:
            if block.language != "python" or block.title is not None:
                continue
            # Blank lines before it, so that a traceback names the line of the page.
            source = "\n" * (block.line - 1) + block.text
            code = compile(source, str(PAGES[name]), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if name in READ_ONLY and READ_ONLY[name] in block.text:
                continue
            running = eval(code, names)  # noqa: S307  # the documentation's own code
            if inspect.iscoroutine(running):
                await running


def test_the_code_of_other_libraries_is_python() -> None:
    others = [block for _, block in blocks_in("python") if block.title is not None and not block.title.endswith(".py")]
    assert len(others) >= 3
    for block in others:
        compile(block.text, block.title or "", "exec")


def test_every_line_for_a_shell_is_one() -> None:
    script = "\n".join(f"# {name}:{block.line}\n{block.text}" for name, block in blocks_in("sh", "bash"))
    checked = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_every_block_of_data_can_be_read() -> None:
    for name, block in blocks_in(*DATA):
        try:
            DATA[block.language](block.text)
        except ValueError as error:
            pytest.fail(f"{name}:{block.line}: {error}")


def test_every_block_says_its_language_and_every_page_that_runs_elsewhere_is_run_there() -> None:
    known = {"python", "sh", "bash", "yaml", "toml", "json", "js", "text", "sql", "dockerfile", "mermaid", "ini", "lua"}
    strange = [
        f"{name}:{block.line}" for name, blocks in SAID.items() for block in blocks if block.language not in known
    ]
    assert strange == []
    for name, test in RUN_ELSEWHERE.items():
        assert name in (ROOT / test).read_text(), name
