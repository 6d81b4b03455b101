"""The folder of the embedded default: whole files, and no way out of its root."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from euterpe.model.failures.failure import Category
from euterpe.transcode.schema.locations import STAGING, LocalDestination, LocalSource
from euterpe.transcode.storage.errors import StorageError
from euterpe.transcode.storage.local import LocalReader, LocalWriter
from euterpe.transcode.storage.local_root import LocalRoot
from euterpe.transcode.storage.ports import UploadAttempt
from tests.transcode.storage.parts import JOB, MIB, Claim, random_file, sha256_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "in").mkdir(parents=True)
    return tmp_path / "root"


def writer(root: Path, prefix: str = "out/") -> LocalWriter:
    return LocalWriter(LocalDestination(prefix=prefix), UploadAttempt(JOB, 1), LocalRoot(root))


def reader(root: Path, path: str, sha256: str | None = None) -> LocalReader:
    return LocalReader(LocalSource(path=path, sha256=sha256), LocalRoot(root))


def named(folder: Path, pattern: str) -> list[Path]:
    return list(folder.glob(f"**/{pattern}"))


async def test_files_go_in_and_out_whole(root: Path, tmp_path: Path) -> None:
    expected = random_file(root / "in/a.wav", 20 * MIB + 1)
    moved: list[int] = []
    source = reader(root, "in/a.wav", expected)
    assert (await source.stat()).size == 20 * MIB + 1
    fetched = await source.fetch(tmp_path / "got", max_bytes=20 * MIB + 1, progress=moved.append)
    assert (fetched.sha256, moved[-1]) == (expected, 20 * MIB + 1)
    stored = await writer(root).put(tmp_path / "got", "deep/er/a.wav", content_type="", fence=Claim().fence)
    assert (stored.key, stored.size, stored.sha256) == ("out/deep/er/a.wav", 20 * MIB + 1, expected)
    assert sha256_of(root / "out/deep/er/a.wav") == expected
    assert stored.etag is not None
    await writer(root).copy("out/deep/er/a.wav", "b.wav", etag=stored.etag, fence=Claim().fence)
    assert sha256_of(root / "out/b.wav") == expected
    with pytest.raises(StorageError):
        await writer(root).copy("out/deep/er/a.wav", "b.wav", etag='"other"', fence=Claim().fence)
    for _ in range(2):
        await writer(root).delete("b.wav")
        await writer(root).delete("nowhere/b.wav")
    assert not (root / "out/b.wav").exists()


@pytest.mark.parametrize(
    "path",
    [
        "link",
        "in/link",
        "folder-link/secret",
        "in/../../secret",
        "../secret",
        "in/./a",
        "in//../../secret",
        "in",
        "pipe",
    ],
)
async def test_nothing_outside_the_root_and_no_special_file_is_read(root: Path, tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_text("secret")
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "in/link").symlink_to("../../secret")
    (root / "folder-link").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    with pytest.raises(StorageError) as caught:
        await reader(root, path).fetch(tmp_path / "got", max_bytes=100)
    assert caught.value.category is Category.PERMANENT
    assert not (tmp_path / "got").exists() or (tmp_path / "got").read_bytes() == b""


@pytest.mark.parametrize("prefix", ["folder-link/", "../", "a/../../", "in/a-file/"])
async def test_nothing_outside_the_root_is_written(root: Path, tmp_path: Path, prefix: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (root / "folder-link").symlink_to(tmp_path / "elsewhere")
    (root / "in/a-file").touch()
    random_file(tmp_path / "a", 10)
    with pytest.raises(StorageError):
        await writer(root, prefix).put(tmp_path / "a", "evil", content_type="", fence=Claim().fence)
    assert not named(tmp_path, "evil")
    assert not named(root / STAGING, "*.part")


async def test_an_output_replaces_a_link_and_not_what_it_leads_to(root: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (root / "out").mkdir()
    (root / "out/a").symlink_to(tmp_path / "victim")
    random_file(tmp_path / "a", 10)
    await writer(root).put(tmp_path / "a", "a", content_type="", fence=Claim().fence)
    assert (tmp_path / "victim").read_text() == "mine"
    assert not (root / "out/a").is_symlink()


async def test_errors_of_files_are_typed(root: Path, tmp_path: Path) -> None:
    random_file(root / "in/a", 100)
    cases = [
        (reader(root, "in/nothing"), 1000, "source.not_found"),
        (reader(root, "in/a"), 99, "source.too_large"),
        (reader(root, "in/a", "0" * 64), 1000, "source.checksum_mismatch"),
    ]
    for source, limit, code in cases:
        with pytest.raises(StorageError) as caught:
            await source.fetch(tmp_path / "got", max_bytes=limit)
        assert (caught.value.code, caught.value.stage) == (code, "fetching")
    with pytest.raises(StorageError) as caught:
        await reader(root, "in/a").fetch(Path("/dev/full"), max_bytes=1000)
    assert (caught.value.code, caught.value.category) == ("worker.disk", Category.SYSTEM)


async def test_a_source_that_changes_while_it_is_read_is_an_error(root: Path, tmp_path: Path) -> None:
    random_file(root / "in/a", 20 * MIB)

    def change(_: int) -> None:
        with (root / "in/a").open("r+b") as file:
            file.write(b"changed")

    with pytest.raises(StorageError) as caught:
        await reader(root, "in/a").fetch(tmp_path / "got", max_bytes=100 * MIB, progress=change)
    assert caught.value.code == "source.changed"


async def test_a_cancelled_put_leaves_no_draft(root: Path, tmp_path: Path) -> None:
    random_file(tmp_path / "a", 20 * MIB)
    moving = asyncio.Event()
    put = writer(root).put(tmp_path / "a", "a", content_type="", fence=Claim().fence, progress=lambda _: moving.set())
    putting = asyncio.create_task(put)
    await moving.wait()
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    assert not (root / "out/a").exists()
    assert not named(root / STAGING, "*.part")
