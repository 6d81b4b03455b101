"""`euterpe transcode FILE...`: the path that a worker takes, on this machine and without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from euterpe.cli.commands.role import run_on_fast_loop
from euterpe.cli.output import note, print_json, print_line
from euterpe.cli.session import json_option
from euterpe.service.components.transcoding import HAS_FILE_LOCKS

FAILED = 1


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--preset",
    "presets",
    multiple=True,
    required=True,
    metavar="NAME",
    help="Such as mp3_320; you can repeat this option.",
)
@click.option(
    "--out", default=".", metavar="DIR", type=click.Path(file_okay=False, path_type=Path), help="Default: this folder."
)
@click.option(
    "--jobs", "at_once", type=click.IntRange(1, 256), metavar="N", help="Files at once; default: one per core."
)
@json_option
def transcode(files: tuple[Path, ...], presets: tuple[str, ...], out: Path, at_once: int | None, as_json: bool) -> None:
    """Transcode files on this machine, without a server.

    \b
    euterpe transcode a.flac --preset mp3_320 --out music
    Each output has the name of FILE and the extension of its preset. An existing
    file is replaced only if the transcode succeeds.
    Audio: mp3_v0, mp3_320, mp3_192, mp3_128, aac_256, aac_160, aac_96, opus_160,
    opus_96, opus_48_speech, ogg_q5, flac, flac_24, alac, wav_16, wav_24.
    Video: h264_1080p, h264_720p, h264_480p.
    """
    if not HAS_FILE_LOCKS:
        raise click.UsageError("transcoding needs Unix (Linux, macOS or a BSD)")
    from euterpe.transcode.local_run import Batch, BatchProblem, transcode_files

    documents: list[dict[str, Any]] = []

    async def main() -> None:
        batch = Batch(files, presets, out, at_once)
        if as_json:
            documents.extend(await transcode_files(batch, lambda _name, _percent, _text: None))
            return
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        name, status = TextColumn("{task.description}"), TextColumn("{task.fields[status]}")
        with Progress(name, BarColumn(), TaskProgressColumn(), status) as bars:
            rows = {path.name: bars.add_task(path.name, total=100, status="") for path in files}
            documents.extend(
                await transcode_files(
                    batch, lambda name, percent, text: bars.update(rows[name], completed=percent, status=text)
                )
            )

    try:
        run_on_fast_loop(main())
    except BatchProblem as problem:
        raise click.UsageError(str(problem)) from None
    if as_json:
        print_json({"files": documents})
    else:
        for document in documents:
            _print_outcome(document)
    if any(document["status"] != "succeeded" for document in documents):
        raise click.exceptions.Exit(FAILED)


def _print_outcome(document: dict[str, Any]) -> None:
    if document["status"] != "succeeded":
        error = document["error"] or {}
        note(f"{document['source']}: {error.get('message', document['status'])} ({error.get('code', 'error')})")
        return
    for output in document["outputs"]:
        print_line(f"{output['path']}  {output['size_bytes']:,} bytes  {output['sha256'][:12]}")
