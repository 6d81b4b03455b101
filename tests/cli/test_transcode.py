"""Transcoding from the command line, and as `./run` offers it."""

from __future__ import annotations

import json
import math
import struct
import subprocess
import sys
import wave
from pathlib import Path
from typing import Any

import httpx

from tests.cli.commands import Shell
from tests.cli.conftest import Start
from tests.cli.test_roles import GOOD_BYE, address_of, pasted
from tests.patience import looks
from tests.plain_http import NO_CERTIFICATES


def make_tone(path: Path) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(44_100)
        file.writeframes(b"".join(struct.pack("<h", int(9_000 * math.sin(at / 20))) for at in range(22_050)))


def test_files_become_one_file_for_each_preset(bare_shell: Shell) -> None:
    for name in ("one", "two"):
        make_tone(bare_shell.folder / f"{name}.wav")
    arguments = ("transcode", "one.wav", "two.wav", "--preset", "mp3_320", "--preset", "flac", "--out", "music")
    documents = bare_shell.json(*arguments)["files"]
    assert [(each["source"], each["status"]) for each in documents] == [
        ("one.wav", "succeeded"),
        ("two.wav", "succeeded"),
    ]
    music = bare_shell.folder / "music"
    assert sorted(path.name for path in music.iterdir()) == ["one.flac", "one.mp3", "two.flac", "two.mp3"]
    assert {Path(output["path"]).stat().st_size for each in documents for output in each["outputs"]} == {
        path.stat().st_size for path in music.iterdir()
    }


def test_a_file_that_is_no_media_fails_alone_and_an_unknown_preset_at_once(bare_shell: Shell) -> None:
    make_tone(bare_shell.folder / "good.wav")
    (bare_shell.folder / "bad.wav").write_text("no music")
    said = bare_shell.refused("transcode", "bad.wav", "good.wav", "--preset", "mp3_128", "--out", "music", code=1)
    assert "bad.wav: " in said
    assert [path.name for path in (bare_shell.folder / "music").iterdir()] == ["good.mp3"]
    assert "no preset 'mp3_9'" in bare_shell.refused("transcode", "good.wav", "--preset", "mp3_9", code=2)


def test_a_command_that_fails_leaves_the_users_old_file(bare_shell: Shell) -> None:
    make_tone(bare_shell.folder / "one.wav")
    (bare_shell.folder / "music/one.flac").mkdir(parents=True)
    old = bare_shell.folder / "music/one.mp3"
    old.write_bytes(b"the only copy")
    arguments = ("transcode", "one.wav", "--preset", "mp3_128", "--preset", "flac", "--out", "music")
    said = bare_shell.refused(*arguments, code=1)
    assert "one.flac: a folder has this name" in said
    assert old.read_bytes() == b"the only copy"


def test_the_transcode_that_a_start_prints_works_as_pasted(bare_shell: Shell, start: Start) -> None:
    system = start(bare_shell, "--role=all", TRANSCODE_LOCAL_ROOT="objects")
    system.until_said(GOOD_BYE)
    text = "".join(system.out)
    commands = text[text.index("Transcode a sound") :].split("\n\n")[1:3]
    accepted = json.loads(pasted(commands[0], bare_shell))
    status = commands[1].replace("PUT-THE-JOB-ID-HERE", accepted["job_id"])
    document: dict[str, Any] = {}
    for _ in looks(lambda: document):
        if (document := json.loads(pasted(status, bare_shell)))["terminal"]:
            break
    assert document["status"] == "succeeded", document
    root = bare_shell.folder / "objects"
    assert [(root / output["key"]).is_file() for output in document["outputs"]] == [True, True]


def test_where_it_is_not_wanted_it_is_neither_shown_nor_loaded(bare_shell: Shell, start: Start) -> None:
    system = start(bare_shell, "--role=all", TRANSCODE_ENABLED="false")
    system.until_said(GOOD_BYE)
    assert "Transcode a sound" not in "".join(system.out)
    paths = httpx.get(f"{address_of(system)}/openapi.json", verify=NO_CERTIFICATES).json()["paths"]
    assert not [path for path in paths if "transcode" in path]
    loaded = (
        "import sys, euterpe.service.roles, euterpe.server.app, euterpe.cli.commands.role;"
        "sys.exit(any(name.startswith('euterpe.transcode') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", loaded], check=False).returncode == 0
    refused = bare_shell.refused("--role=all", code=1, TRANSCODE_ENABLED="true", EUTERPE_FFMPEG="/nowhere/ffmpeg")
    assert "EUTERPE_FFMPEG names no program" in refused
