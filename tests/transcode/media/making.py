"""Media made on the spot: each file is made once a session and worker process, by the ffmpeg under test."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

from euterpe.transcode.media.ffmpeg.tools import Tools

TONE = "aevalsrc=0.4*sin(440*2*PI*t)|0.3*sin(660*2*PI*t):d={seconds}:s={rate}"
TAGS = {
    "title": "A título = with ; signs # and \\ more",
    "artist": "Somebody",
    "album": "An album",
    "date": "2021",
    "track": "3",
    "genre": "Rock",
    "comment": "two\nlines",
}
CUSTOM_TAGS = {"catalog_number": "EUT-001"}
CHAPTERS = ((0, 400, "one"), (400, 1000, "two"))


class Media:
    def __init__(self, folder: Path, tools: Tools) -> None:
        self.folder = folder
        self.tools = tools

    def make(self, name: str, *arguments: str) -> Path:
        """`arguments` are ffmpeg's, from the first input to before the name of the output."""
        path = self.folder / name
        if not path.exists():
            self.ffmpeg(*arguments, str(path))
        return path

    def ffmpeg(self, *arguments: str) -> bytes:
        command = [str(self.tools.ffmpeg), "-hide_banner", "-loglevel", "error", "-nostdin", "-y", *arguments]
        done = subprocess.run(command, capture_output=True, check=False, cwd=self.folder)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout

    def tone(self, name: str, *options: str, seconds: float = 1.0, rate: int = 44100) -> Path:
        return self.make(name, "-f", "lavfi", "-i", TONE.format(seconds=seconds, rate=rate), *options)

    def noise(self, name: str, *options: str, seconds: float = 1.0) -> Path:
        """Quieter, then louder: something for a loudness range."""
        source = f"anoisesrc=d={seconds}:c=pink:r=48000:a=0.3:seed=7,volume='0.2+0.6*mod(floor(t/3),2)':eval=frame"
        return self.make(name, "-f", "lavfi", "-i", source, *options)

    def video(self, name: str, *options: str, seconds: float = 2.0, size: str = "320x180") -> Path:
        """Picture and sound."""
        return self.make(
            name,
            *("-f", "lavfi", "-i", f"testsrc=d={seconds}:s={size}:r=25"),
            *("-f", "lavfi", "-i", TONE.format(seconds=seconds, rate=48000)),
            *("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", "-shortest"),
            *options,
        )

    def cover(self, name: str = "cover.png") -> Path:
        return self.make(name, "-f", "lavfi", "-i", "testsrc=s=48x48:d=1", "-frames:v", "1")

    def tagged(self, name: str, *options: str, cover: bool = True) -> Path:
        """A second of tone with tags, chapters and a cover."""
        metadata = self.folder / "tags.txt"
        metadata.write_text(_ffmetadata())
        picture = ("-i", str(self.cover())) if cover else ()
        mapped = ("-map", "2:v", "-c:v", "copy", "-disposition:v:0", "attached_pic") if cover else ()
        return self.make(
            name,
            *(
                "-f",
                "lavfi",
                "-i",
                TONE.format(seconds=1, rate=44100),
                "-f",
                "ffmetadata",
                "-i",
                str(metadata),
                *picture,
            ),
            *("-map", "0:a", *mapped, "-map_metadata", "1", "-map_chapters", "1", *options),
        )

    def samples(self, path: Path, *options: str, form: str = "s16le") -> bytes:
        """The decoded sound, as every player hears it."""
        return self.ffmpeg("-i", str(path), "-map", "0:a:0", *options, "-f", form, "-")

    def samples_md5(self, path: Path, form: str = "s32le") -> str:
        return hashlib.md5(self.samples(path, form=form), usedforsecurity=False).hexdigest()


def _ffmetadata() -> str:
    lines = [";FFMETADATA1"]
    lines += [f"{name}={_escaped(value)}" for name, value in {**TAGS, **CUSTOM_TAGS}.items()]
    for start, end, title in CHAPTERS:
        lines += ["[CHAPTER]", "TIMEBASE=1/1000", f"START={start}", f"END={end}", f"title={title}"]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "=;#\\\n" else letter for letter in text)


def listed(folder: Path) -> Sequence[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
