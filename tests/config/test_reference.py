"""The page on configuration says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from euterpe.config import ConfigError, load_config
from euterpe.config.reference import reference
from tests.config.samples import EVERY_KEY

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_reference_on_the_page_is_the_one_that_the_code_makes() -> None:
    page = PAGE.read_text().partition("<!-- reference -->\n")[2]
    assert page.strip() == reference().strip(), "run: python -m euterpe.config.reference, and paste it into the page"


def test_the_reference_has_every_key() -> None:
    assert set(re.findall(r"^\| `([a-z_.]+)`", reference(), re.MULTILINE)) == set(EVERY_KEY)


def test_every_default_on_the_page_is_itself_a_valid_setting() -> None:
    for key, default in re.findall(r"^\| `([a-z_.]+)` \| `[A-Z_]+` \| `(.*?)` \|", reference(), re.MULTILINE):
        variable = key.replace(".", "_").upper()
        load_config(None, {variable: "" if default == '""' else default})


def test_the_example_on_the_page_loads(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert example is not None
    path = tmp_path / "euterpe.yaml"
    path.write_text(example[1])
    config = load_config(str(path), {})
    assert config.worker.count == YAML(typ="safe").load(example[1])["worker"]["count"]


def test_the_message_on_the_page_is_the_one_that_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("euterpe.yaml").write_text("# my workers\n\nworker:\n  count: 0\n  cuont: 3\n")
    with pytest.raises(ConfigError) as caught:
        load_config("euterpe.yaml", {"OUTBOX_BATCH": "30"})
    shown = [line.strip() for line in str(caught.value).splitlines()]
    told = [line.strip() for line in PAGE.read_text().splitlines()]
    assert all(line in told for line in shown)
