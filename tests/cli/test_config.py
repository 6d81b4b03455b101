"""`euterpe config`: what is in effect and where it came from; and a file that was named and is not there."""

from __future__ import annotations

import json

from tests.cli.commands import Shell


def test_what_is_in_effect_is_shown_with_its_source(bare_shell: Shell) -> None:
    (bare_shell.folder / "c.yaml").write_text("redis:\n  password: canary\n")
    shell = Shell(bare_shell.folder, bare_shell.environ | {"EUTERPE_WORKER_COUNT": "7"})
    said = shell.run("config", "show", "--config=c.yaml", "--engine=postgresql://u:canary@h/db", "--json")
    assert said.returncode == 0, said.stderr
    shown = {entry["key"]: (entry["value"], entry["source"]) for entry in json.loads(said.stdout)}
    assert shown["worker.count"] == ("7", "$EUTERPE_WORKER_COUNT")
    assert shown["redis.password"] == ("***", "c.yaml:2")
    assert shown["engine.url"] == ("postgresql://***@h/db", "--engine")
    assert "canary" not in said.stdout


def test_a_config_file_that_is_not_there_is_said_aloud_and_is_no_error(bare_shell: Shell) -> None:
    said = bare_shell.run("stats", "--config=none.yaml", "--engine=sqlite:///x.db")
    assert said.returncode == 1
    assert "there is no file none.yaml" in said.stderr
    assert "there is no database at" in said.stderr


def test_a_variable_of_the_redis_section_must_make_sense_where_jobs_are_in_redis_and_stops_nobody_else(
    bare_shell: Shell,
) -> None:
    refused = bare_shell.refused("stats", "--engine=redis://127.0.0.1:1/0", code=2, REDIS_DB="first")
    assert "redis.db" in refused
    assert "$REDIS_DB" in refused
    assert "there is no database at" in bare_shell.refused("stats", "--engine=sqlite:///x.db", code=1, REDIS_DB="first")
