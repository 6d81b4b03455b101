"""`euterpe doctor`: its exit code, its words and its JSON."""

from __future__ import annotations

from tests.cli.commands import Shell


def test_a_healthy_queue_exits_0_a_warning_1_and_an_error_2(bare_sqlite_url: str, bare_shell: Shell) -> None:
    sqlite_shell = Shell(bare_shell.folder, bare_shell.environ | {"ENGINE_URL": bare_sqlite_url})
    before = sqlite_shell.run("doctor")
    assert (before.returncode, "there is no database" in before.stdout) == (2, True)
    sqlite_shell.ok("migrate")
    well = sqlite_shell.run("doctor", "--all")
    assert well.returncode == 0, well.stdout
    assert "ok       migrations: the schema is up to date" in well.stdout
    assert "0 warnings, 0 errors" in well.stdout
    sqlite_shell.ok("submit", "report")
    sqlite_shell.ok("pause", "--queue", "default")
    paused = sqlite_shell.run("doctor", "--json")
    assert paused.returncode == 1
    assert '"severity": "warning"' in paused.stdout
    assert "euterpe resume --queue default" in paused.stdout


def test_a_configuration_that_cannot_be_read_is_a_finding(sqlite_shell: Shell) -> None:
    told = sqlite_shell.run("doctor", WORKER_COUNT="many")
    assert told.returncode == 2
    assert "worker.count" in told.stdout
    assert "next: " in told.stdout
    broken = sqlite_shell.run("doctor", "--config", "euterpe.yaml")
    assert "configuration: there is no file euterpe.yaml" in broken.stdout
    (sqlite_shell.folder / "euterpe.yaml").write_text("worker:\n  kount: 3\n")
    broken = sqlite_shell.run("doctor", "--config", "euterpe.yaml")
    assert (broken.returncode, "worker.kount" in broken.stdout) == (2, True)
