"""The producer as a process: `--role=producer`, and the pipeline from a folder of music to a folder of encodes."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import redis

from tests.cli.commands import Shell
from tests.cli.conftest import Start
from tests.cli.test_roles import GOOD_BYE, address_of
from tests.cli.test_transcode import make_tone
from tests.patience import looks
from tests.plain_http import NO_CERTIFICATES

PATIENCE_S = 60.0


def until_there(path: Path) -> None:
    for _ in looks(lambda: path, PATIENCE_S):
        if path.exists():
            return


def until_listed(shell: Shell, count: int) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = []
    for _ in looks(lambda: f"{count} jobs, and not {len(jobs)}", PATIENCE_S):
        if len(jobs := shell.json("jobs", "list", "--limit", "100")["jobs"]) >= count:
            break
    return jobs


def test_a_folder_of_music_becomes_a_folder_of_encodes(bare_shell: Shell, start: Start) -> None:
    """As the README has it."""
    folder = bare_shell.folder
    (folder / "media/in/album").mkdir(parents=True)
    make_tone(folder / "media/in/first.wav")
    for beside in ("cover.jpg", "rip.log", "album/disc.cue"):
        (folder / "media/in" / beside).write_text("no music")
    settings = {
        "TRANSCODE_LOCAL_ROOT": "media",
        "PRODUCER_SCAN_DIR": "media/in",
        "PRODUCER_PRESETS": "mp3_128",
        "PRODUCER_SETTLE": "100ms",
    }
    system = start(bare_shell, "--role=all", **settings)
    system.until_said(GOOD_BYE)
    until_there(folder / "media/encodes/first.mp3")
    make_tone(folder / "late.wav")
    (folder / "late.wav").rename(folder / "media/in/album/late.wav")
    until_there(folder / "media/encodes/album/late.mp3")
    metrics = httpx.get(f"{address_of(system)}/metrics", verify=NO_CERTIFICATES).text
    assert 'jobs_produced_total{queue="default"} 2.0' in metrics
    system.tell(signal.SIGTERM)
    assert system.ended() == 0
    again = start(bare_shell, "--role=producer", **settings, PRODUCER_SCAN_INTERVAL="200ms")
    again.until_said("looking for files")
    make_tone(folder / "media/in/third.wav")
    again.until_said("1 jobs enqueued")
    assert len(bare_shell.json("jobs", "list")["jobs"]) == 3


def test_a_folder_of_music_becomes_a_folder_of_encodes_on_redis_lists_too(
    bare_shell: Shell, start: Start, redis_url: str
) -> None:
    folder = bare_shell.folder
    (folder / "media/in/album").mkdir(parents=True)
    make_tone(folder / "media/in/album/first.wav")
    settings = {
        "ENGINE_URL": redis_url,
        "TRANSCODE_LOCAL_ROOT": "media",
        "PRODUCER_SCAN_DIR": "media/in",
        "PRODUCER_PRESETS": "mp3_128",
        "PRODUCER_SETTLE": "100ms",
        "PRODUCER_SCAN_INTERVAL": "200ms",
    }
    system = start(bare_shell, "--role=all", **settings)
    until_there(folder / "media/encodes/album/first.mp3")
    (folder / "media/in/broken.wav").write_text("no music")
    system.until_said('"state":"failed"')
    system.tell(signal.SIGTERM)
    assert system.ended() == 0
    assert bare_shell.json("stats", ENGINE_URL=redis_url)["by_state"] == {"completed": 1, "failed": 1}
    assert not list((folder / "media/.euterpe-staging").iterdir()), "drafts are gone"


APP_WITH_A_PREFIX = """
import euterpe

queue = euterpe.Queue("redis://?prefix=shop")


@queue.job("process_file")
async def process_file(filepath: str, filesize: int, priority: str) -> None:
    if filepath.endswith(".txt"):
        raise euterpe.TemporaryError("not a sound")
"""


def test_an_installation_with_a_prefix_keeps_to_it_from_the_folder_to_the_last_list(
    bare_shell: Shell, start: Start, redis_url: str
) -> None:
    """The address comes from the section `redis`, the names from the prefix, and the retries from `worker`."""
    folder, place = bare_shell.folder, urlsplit(redis_url)
    (folder / "in").mkdir()
    for name in ("a.wav", "b.txt"):
        (folder / "in" / name).write_text("sound")
    (folder / "shop.py").write_text(APP_WITH_A_PREFIX)
    start(
        bare_shell,
        "--role=all",
        "--app",
        "shop:queue",
        ENGINE_URL="redis://?prefix=shop",
        REDIS_ADDR=f"{place.hostname}:{place.port}",
        REDIS_PASSWORD=place.password or "",
        REDIS_DB=place.path.strip("/"),
        WORKER_MAX_RETRIES="1",
        WORKER_BACKOFF_BASE="10ms",
        PRODUCER_SCAN_DIR="in",
        PRODUCER_SETTLE="0s",
        OBSERVABILITY_METRICS_PORT="0",
    )
    with redis.Redis.from_url(redis_url, decode_responses=True) as raw:
        for _ in looks(raw.keys, PATIENCE_S):
            if raw.llen("shop:completed") + raw.llen("shop:dead_letter") == 2:
                break
        dead, completed = (json.loads(raw.lindex(f"shop:{name}", 0)) for name in ("dead_letter", "completed"))
        assert (Path(completed["filepath"]).name, completed["origin_queue"]) == ("a.wav", "shop:low_priority")
        assert (Path(dead["filepath"]).name, dead["retries"]) == ("b.txt", 1)
        assert {key.partition(":")[0] for key in raw.scan_iter()} == {"shop"}


def test_a_submit_goes_to_the_configured_redis_as_the_jobs_of_files_do(bare_shell: Shell, redis_url: str) -> None:
    place = urlsplit(redis_url)
    (bare_shell.folder / "shop.py").write_text(APP_WITH_A_PREFIX)
    settings = {
        "REDIS_ADDR": f"{place.hostname}:{place.port}",
        "REDIS_PASSWORD": place.password or "",
        "REDIS_DB": place.path.strip("/"),
    }
    said = '{"filepath": "a.wav", "filesize": 1, "priority": "low"}'
    bare_shell.json("submit", "process_file", said, "--app", "shop:queue", **settings)
    bare_shell.json("submit", "process_file", said, ENGINE_URL="redis://?prefix=shop", **settings)
    with redis.Redis.from_url(redis_url) as raw:
        assert raw.llen("shop:normal_priority") == 2


def test_the_encodes_may_lie_inside_the_scanned_folder(bare_shell: Shell, start: Start) -> None:
    folder = bare_shell.folder
    (folder / "media").mkdir()
    make_tone(folder / "media/a.wav")
    (folder / "media/a.flac").write_text("no music: its encode would have the same name")
    system = start(
        bare_shell,
        "--role=all",
        TRANSCODE_LOCAL_ROOT="media",
        PRODUCER_SCAN_DIR="media",
        PRODUCER_PRESETS="mp3_128",
        PRODUCER_EXCLUDE_GLOBS="samples/**",
        PRODUCER_SETTLE="0s",
        PRODUCER_SCAN_INTERVAL="200ms",
    )
    system.until_said(GOOD_BYE)
    until_there(folder / "media/encodes/a.wav.mp3")
    (folder / "media/sentinel.wav").touch()
    assert len(until_listed(bare_shell, 3)) == 3
    assert sorted(path.name for path in (folder / "media/encodes").iterdir()) == ["a.wav.mp3"]


def test_a_producer_without_a_folder_is_told_which_key_is_missing(sqlite_shell: Shell) -> None:
    assert "producer.scan_dir" in sqlite_shell.refused("--role=producer", code=2)


def test_files_go_to_a_control_plane_too(bare_shell: Shell, start: Start, tmp_path: Path) -> None:
    api = start(bare_shell, "--role=api")
    api.until_said(GOOD_BYE)
    key = bare_shell.json("keys", "create", "--requester", "files", "--scope", "submit,read")["key"]
    files = tmp_path / "files"
    files.mkdir()
    for number in range(20):
        (files / f"{number}.txt").write_text("x")
    url = address_of(api).replace("http://", f"http://:{key}@")
    for _ in range(2):
        producer = start(
            bare_shell, "--role=producer", ENGINE_URL=url, PRODUCER_SCAN_DIR=str(files), PRODUCER_SETTLE="0s"
        )
        producer.until_said("looking for files")
        jobs = until_listed(bare_shell, 20)
        producer.tell(signal.SIGTERM)
        assert producer.ended() == 0
    assert len(jobs) == 20
    assert {job["type"] for job in jobs} == {"process_file"}
