"""A run from outside: what kills it, what it leaves, what it says on the way."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import uvloop

from euterpe.model.failures.failure import Category
from euterpe.transcode.media.encode import encode
from euterpe.transcode.media.errors import MediaError
from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.process import ENVIRONMENT, Watch, run_contained
from euterpe.transcode.media.ffmpeg.progress import MediaProgress, Meter, PassMeter
from euterpe.transcode.media.ffmpeg.tools import Tools
from euterpe.transcode.media.results import EncodedOutput
from euterpe.transcode.schema.checking import read_outputs
from euterpe.transcode.schema.outputs import Output
from tests.patience import PATIENCE_S
from tests.transcode.media.making import Media, listed

AUDIO = [{"id": "a", "kind": "audio", "preset": "mp3_320"}, {"id": "w", "kind": "waveform"}]


def endless(media: Media) -> Path:
    """Four hours of silence, mostly a hole in the disk: no machine encodes that while a test looks on."""
    path = media.folder / "endless.wav"
    if not path.exists():
        size = 4 * 3600 * 44100 * 4
        form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 2, 44100, 44100 * 4, 4, 16)
        head = struct.pack("<4sI4s", b"RIFF", size + 36, b"WAVE") + form + struct.pack("<4sI", b"data", size)
        with path.open("wb") as file:
            file.write(head)
            file.truncate(len(head) + size)
    return path


@asynccontextmanager
async def running(
    source: Path, workdir: Path, tools: Tools, limits: MediaLimits
) -> AsyncIterator[tuple[asyncio.Task[list[EncodedOutput]], psutil.Process]]:
    """An encode in the middle, and its ffmpeg."""
    outputs, problems = read_outputs(AUDIO)
    assert not problems
    moved = asyncio.Event()
    seen: list[MediaProgress] = []

    def note(progress: MediaProgress) -> None:
        seen.append(progress)
        if progress.speed is not None:
            moved.set()

    task = asyncio.create_task(encode(source, outputs, workdir, tools=tools, limits=limits, on_progress=note))
    waiting = asyncio.create_task(moved.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    assert not task.done(), task
    (child,) = [each for each in psutil.Process().children() if each.name().startswith("ffmpeg")]
    try:
        yield task, child
    finally:
        task.cancel()
        await asyncio.wait({task})


def open_names(pid: int) -> set[str]:
    links = [fd.readlink() for fd in Path(f"/proc/{pid}/fd").iterdir()]
    return {link.name for link in links if link.is_absolute() and not link.is_relative_to("/dev")}


def network_of(pid: str) -> Path:
    return Path(f"/proc/{pid}/ns/net").readlink()


@pytest.mark.timeout(60)
async def test_a_run_that_stands_still_is_killed(media: Media, workdir: Path, tools: Tools) -> None:
    async with running(endless(media), workdir, tools, MediaLimits(stall_s=5.0)) as (task, child):
        child.suspend()
        with pytest.raises(MediaError) as caught:
            async with asyncio.timeout(PATIENCE_S):
                await task
        assert (caught.value.code, caught.value.category) == ("encode.stalled", Category.TIMEOUT)
        assert not child.is_running()
        assert listed(workdir) == []


async def test_a_run_beyond_its_time_is_killed(media: Media, workdir: Path, tools: Tools) -> None:
    outputs, _ = read_outputs(AUDIO)
    with pytest.raises(MediaError) as caught:
        await encode(endless(media), outputs, workdir, tools=tools, limits=MediaLimits(timeout_s=0.5))
    assert (caught.value.code, caught.value.category) == ("encode.timeout", Category.TIMEOUT)
    assert [each for each in psutil.Process().children() if each.name().startswith("ffmpeg")] == []
    assert listed(workdir) == []


async def test_a_cancelled_encode_leaves_no_process_and_no_file(
    media: Media, workdir: Path, tools: Tools, limits: MediaLimits
) -> None:
    async with running(endless(media), workdir, tools, limits) as (task, child):
        assert listed(workdir) != []
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not child.is_running()
        assert listed(workdir) == []
        assert [fd for fd in psutil.Process().open_files() if "endless" in fd.path] == []


async def test_a_signal_from_outside_is_the_systems_fault_once(
    media: Media, workdir: Path, tools: Tools, limits: MediaLimits
) -> None:
    async with running(endless(media), workdir, tools, limits) as (task, child):
        child.send_signal(signal.SIGSEGV)
        with pytest.raises(MediaError) as caught:
            await task
    error = caught.value
    assert (error.code, error.category, error.signal) == ("encode.crashed", Category.SYSTEM, signal.SIGSEGV)
    assert listed(workdir) == []


async def test_the_child_is_contained(media: Media, workdir: Path, tools: Tools, limits: MediaLimits) -> None:
    """Its own group and session, nicer than we are, limits set, nothing of our environment, one descriptor of ours."""
    tight = replace(limits, max_output_bytes=123_456_789, nice=7)
    async with running(endless(media), workdir, tools, tight) as (_, child):
        assert os.getpgid(child.pid) == os.getsid(child.pid) == child.pid != os.getpgid(0)
        assert child.nice() == min(19, psutil.Process().nice() + 7)
        assert child.rlimit(psutil.RLIMIT_FSIZE) == (123_456_789, 123_456_789)
        assert child.rlimit(psutil.RLIMIT_AS)[0] == tight.memory_bytes
        assert child.rlimit(psutil.RLIMIT_CORE)[0] == 0
        assert child.rlimit(psutil.RLIMIT_CPU)[0] > 0
        assert child.environ() == ENVIRONMENT
        assert open_names(child.pid) == {"endless.wav", "media"}
        if os.geteuid() == 0:
            assert network_of(str(child.pid)) != network_of("self")
        words = " ".join(child.cmdline())
        assert "endless" not in words, "the source has no name in the process list"


def test_ffmpeg_dies_with_the_process_that_started_it(
    media: Media, workdir: Path, tools: Tools, tmp_path: Path
) -> None:
    script = tmp_path / "encoder.py"
    script.write_text(
        f"""
import asyncio, sys
from pathlib import Path
from euterpe.transcode.schema.checking import read_outputs
from euterpe.transcode.media.encode import encode
from euterpe.transcode.media.ffmpeg.limits import MediaLimits
from euterpe.transcode.media.ffmpeg.tools import find_tools
outputs, _ = read_outputs({AUDIO[:1]!r})
def note(progress):
    if progress.speed is not None:
        print("moving", flush=True)
source, workdir = Path({str(endless(media))!r}), Path({str(workdir)!r})
asyncio.run(encode(source, outputs, workdir, tools=find_tools(), limits=MediaLimits(), on_progress=note))
"""
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"moving\n"
        (child,) = [each for each in psutil.Process(parent.pid).children() if each.name().startswith("ffmpeg")]
        parent.kill()
        parent.wait()
        gone, alive = psutil.wait_procs([child], timeout=PATIENCE_S)
        for each in alive:
            each.kill()  # It would encode for ever, and take a core from every test after this one.
    assert not alive
    assert gone


@pytest.mark.parametrize("preset", ["wav_24", "flac"])
async def test_an_output_beyond_twice_its_source_is_refused(
    media: Media, workdir: Path, tools: Tools, preset: str
) -> None:
    """The rule for sources over a gigabyte, with the gigabyte made small."""
    source = media.noise("small.opus", "-b:a", "32k", seconds=3)
    limits = MediaLimits(ratio_from_bytes=1000)
    assert limits.output_bytes(source.stat().st_size) == 2 * source.stat().st_size
    outputs, _ = read_outputs(
        [{"id": "small", "kind": "audio", "preset": "opus_48_speech"}, {"id": "big", "kind": "audio", "preset": preset}]
    )
    with pytest.raises(MediaError) as caught:
        await encode(source, outputs, workdir, tools=tools, limits=limits)
    error = caught.value
    assert (error.code, error.category, error.output_id) == ("output.too_large", Category.PERMANENT, "big")
    assert error.exit_code == 229, "the kernel stopped the write, and ffmpeg said so"
    assert listed(workdir) == []


def test_the_rule_of_200_percent_holds_above_a_gigabyte_only() -> None:
    limits = MediaLimits(max_output_bytes=50_000_000_000)
    assert limits.output_bytes(1_000_000_000) == 50_000_000_000
    assert limits.output_bytes(1_000_000_001) == 2_000_000_002
    assert limits.output_bytes(40_000_000_000) == 50_000_000_000


async def test_all_segments_of_a_ladder_count_together(media: Media, workdir: Path, tools: Tools) -> None:
    source = media.noise("noise9.wav", seconds=9)
    outputs, _ = read_outputs([{"id": "h", "kind": "hls", "segment_seconds": 1, "variants": [{"preset": "aac_256"}]}])
    with pytest.raises(MediaError) as caught:
        await encode(source, outputs, workdir, tools=tools, limits=MediaLimits(max_output_bytes=100_000))
    assert (caught.value.code, caught.value.output_id) == ("output.too_large", "h")
    assert listed(workdir) == []


async def test_progress_never_goes_back_and_ends_at_a_hundred(media: Media, workdir: Path, tools: Tools) -> None:
    outputs, _ = read_outputs(
        [
            {"id": "a", "kind": "audio", "preset": "mp3_320", "loudness": {}},
            {"id": "b", "kind": "audio", "preset": "flac", "trim": {"start_ms": 1000, "end_ms": 2000}},
            {"id": "w", "kind": "waveform"},
        ]
    )
    seen: list[MediaProgress] = []
    source = media.noise("noise20.flac", seconds=20)
    await encode(source, outputs, workdir, tools=tools, limits=MediaLimits(), on_progress=seen.append)
    percents = [progress.percent for progress in seen]
    assert percents == sorted(percents)
    assert (percents[0], percents[-1], percents.count(100.0)) == (0.0, 100.0, 1)
    assert len({percent for percent in percents if 0 < percent < 99}) >= 2
    assert any(progress.speed and progress.eta_seconds is not None for progress in seen)


def test_progress_is_by_the_time_of_the_media_over_all_passes() -> None:
    now = [0.0]
    said: list[MediaProgress] = []
    meter = Meter((1.0, 3.0), said.append, clock=lambda: now[0])
    first = meter.begin_pass(0, 10_000)
    now[0] = 1.0
    assert first.feed(b"out_time_us=5000000\nspeed=5x\nprogress=continue\n")
    assert (said[-1].percent, said[-1].speed, said[-1].eta_seconds) == (12.5, 5.0, 7.0)
    assert not first.feed(b"out_time_us=5000000\nspeed=5x\nprogress=continue\n"), "the same again is a standstill"
    assert first.feed(b"out_time_us=2000000\nprogress=contin"[:20]) is False
    assert first.feed(b"ZZ\nout_time_us=N/A\nprogress=end\n")
    second = meter.begin_pass(1, 10_000)
    second.feed(b"out_time_us=99000000\nspeed=N/A\nprogress=continue\n")
    assert said[-1] == MediaProgress(99.0, None, 0.0), "a hundred is only said when all is verified"
    meter.finish()
    assert [progress.percent for progress in said] == sorted(progress.percent for progress in said)
    assert said[-1].percent == 100.0


def test_a_source_of_unknown_length_still_shows_that_it_moves() -> None:
    meter = PassMeter(lambda _share, _speed: None, None)
    assert meter.feed(b"out_time_us=1000\nprogress=continue\n")
    assert meter.feed(b"out_time_us=2000\nprogress=continue\n")
    assert not meter.feed(b"out_time_us=2000\nprogress=continue\n")


async def test_what_a_child_says_is_kept_to_a_bounded_tail(tmp_path: Path, limits: MediaLimits) -> None:
    chatter = "import sys\nfor n in range(40000): sys.stderr.write(f'line {n} ' * 10 + chr(10))\nprint('x' * 3000000)"
    done = await run_contained(
        [sys.executable, "-c", chatter],
        limits=limits,
        file_bytes=0,
        cwd=tmp_path,
        watch=Watch(deadline=time.monotonic() + 60, stall_s=60),
    )
    assert done.returncode == 0
    assert len(done.stderr) <= 64 * 1024
    assert "line 39999" in done.stderr
    assert done.stdout == b""


async def test_a_program_that_is_not_there_is_the_systems_fault(media: Media, workdir: Path, tools: Tools) -> None:
    outputs, _ = read_outputs(AUDIO)
    gone = Tools(Path("/nonexistent/ffmpeg"), Path("/nonexistent/ffprobe"), "0")
    with pytest.raises(MediaError) as caught:
        await encode(media.tone("tone.wav"), outputs, workdir, tools=gone, limits=MediaLimits())
    assert (caught.value.code, caught.value.category) == ("tools.not_started", Category.SYSTEM)
    assert "/nonexistent" not in caught.value.message


async def test_wherever_an_encode_is_cancelled_nothing_is_left(
    media: Media, workdir: Path, tools: Tools, limits: MediaLimits
) -> None:
    """At the first progress, the second, and so on, until one comes to its end."""
    outputs, _ = read_outputs([*AUDIO, {"id": "l", "kind": "audio", "preset": "opus_96", "loudness": {}}])
    source = media.tagged("mp3.mp3", "-c:a", "libmp3lame")
    for number in range(1, 100):
        task = asyncio.create_task(_cancelled_at(number, source, outputs, workdir, tools, limits))
        await asyncio.wait({task})
        assert [each for each in psutil.Process().children() if each.name().startswith("ffmpeg")] == []
        if not task.cancelled():
            assert listed(workdir) == ["a.mp3", "l.opus", "w.json"]
            assert number > 3
            return
        assert listed(workdir) == []
    raise AssertionError("it never came to its end")


async def test_a_cancel_at_the_last_word_of_an_encode_leaves_nothing(
    media: Media, workdir: Path, tools: Tools, limits: MediaLimits
) -> None:
    """It comes when all is made and nothing is handed over yet."""
    outputs, _ = read_outputs(AUDIO)
    source = media.tagged("mp3.mp3", "-c:a", "libmp3lame")

    async def cancelled_at_the_end() -> None:
        own = asyncio.current_task()
        assert own is not None

        def note(progress: MediaProgress) -> None:
            if progress.percent == 100:
                own.cancel()

        await encode(source, outputs, workdir, tools=tools, limits=limits, on_progress=note)

    task = asyncio.create_task(cancelled_at_the_end())
    await asyncio.wait({task})
    assert listed(workdir) == []
    assert task.cancelled()


async def _cancelled_at(
    number: int, source: Path, outputs: Sequence[Output], workdir: Path, tools: Tools, limits: MediaLimits
) -> None:
    own = asyncio.current_task()
    assert own is not None
    told = itertools.count(1)

    def note(progress: MediaProgress) -> None:
        if next(told) == number and progress.percent < 100:
            own.cancel()

    await encode(source, outputs, workdir, tools=tools, limits=limits, on_progress=note)


def test_it_runs_on_the_loop_that_workers_use(media: Media, workdir: Path, tools: Tools, limits: MediaLimits) -> None:
    outputs, _ = read_outputs(AUDIO)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        made = runner.run(encode(media.tone("tone.wav"), outputs, workdir, tools=tools, limits=limits))
    assert [output.duration_ms for output in made] == [1000, 1000]


async def test_a_folder_that_cannot_be_written_is_the_systems_fault(
    media: Media, tools: Tools, limits: MediaLimits
) -> None:
    outputs, _ = read_outputs(AUDIO)
    with pytest.raises(MediaError) as caught:
        await encode(media.tone("tone.wav"), outputs, Path("/nonexistent/folder"), tools=tools, limits=limits)
    assert (caught.value.code, caught.value.category) == ("encode.io_error", Category.SYSTEM)
    assert "/nonexistent" not in caught.value.message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__, "a logged traceback would name the path"
