"""What a look through a folder finds, whatever is in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from euterpe.producer.globs import Globs
from euterpe.producer.tree import Tree
from tests.producer.conftest import EVERYTHING

NOBODY = 65_534


def paths(folder: Path, globs: Globs = EVERYTHING) -> list[str]:
    return sorted(file.path for file in Tree(folder, globs).walk().files)


def test_names_of_any_kind_are_found_in_any_depth(music: Path) -> None:
    names = ["a.wav", "sp ace/ü/語.wav", "new\nline.wav", "-rf", "quote'\".wav", "%s", "d/e/e/p/x"]
    for name in names:
        (music / name).parent.mkdir(parents=True, exist_ok=True)
        (music / name).write_text("sound")
    assert paths(music) == sorted(names)


def test_a_name_that_is_no_utf8_is_left_out_and_counted(music: Path) -> None:
    (music / "good").touch()
    Path(os.fsdecode(os.fsencode(music) + b"/bad\xff.wav")).touch()
    look = Tree(music, EVERYTHING).walk()
    assert [file.path for file in look.files] == ["good"]
    assert look.odd_names == 1


def test_links_are_not_followed_and_those_that_lead_out_are_counted(music: Path, tmp_path: Path) -> None:
    outside = tmp_path / "secret"
    outside.mkdir()
    (outside / "key").write_text("secret")
    (music / "a.wav").write_text("sound")
    (music / "out.wav").symlink_to(outside / "key")
    (music / "out").symlink_to(outside)
    (music / "sideways.wav").symlink_to("a.wav")
    (music / "loop").symlink_to(music)
    (music / "ring").symlink_to("ring")
    (music / "nowhere").symlink_to("gone")
    look = Tree(music, EVERYTHING).walk()
    assert [file.path for file in look.files] == ["a.wav"]
    assert look.links_out == 2


def test_a_look_that_begins_behind_a_link_finds_nothing(music: Path, tmp_path: Path) -> None:
    """A watch that follows links may name such a folder."""
    outside = tmp_path / "secret"
    (outside / "deep").mkdir(parents=True)
    (outside / "key").write_text("secret")
    (outside / "deep/key").write_text("secret")
    (music / "album").mkdir()
    (music / "album/a.wav").write_text("sound")
    (music / "album/out").symlink_to(outside)
    (music / "loop").symlink_to(music)
    tree = Tree(music, EVERYTHING)
    for folder in ("album/out", "album/out/deep", "loop", "loop/album"):
        assert tree.walk(folder).files == []
    assert [file.path for file in tree.walk("album").files] == ["album/a.wav"]


def test_pipes_and_sockets_are_no_files(music: Path) -> None:
    os.mkfifo(music / "pipe")
    assert paths(music) == []


def test_a_folder_that_cannot_be_read_costs_only_its_own_files(music: Path) -> None:
    (music / "open").mkdir()
    (music / "open/a.wav").touch()
    (music / "closed").mkdir()
    (music / "closed/b.wav").touch()
    for folder in (music, *music.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/") and folder != Path("/tmp"):
            folder.chmod(0o755)
    (music / "closed").chmod(0)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        look = Tree(music, EVERYTHING).walk()
    finally:
        if is_root:
            os.seteuid(0)
        (music / "closed").chmod(0o755)
    assert [file.path for file in look.files] == ["open/a.wav"]
    assert look.unreadable == 1


def test_a_root_that_is_gone_is_an_error_and_not_an_empty_folder(music: Path) -> None:
    tree = Tree(music, EVERYTHING)
    music.rmdir()
    with pytest.raises(FileNotFoundError):
        tree.walk()


def test_our_own_outputs_are_never_looked_at(music: Path) -> None:
    (music / "encodes/album").mkdir(parents=True)
    (music / "encodes/album/a.mp3").touch()
    (music / "encodes2").mkdir()
    (music / "encodes2/b.wav").touch()
    tree = Tree(music, EVERYTHING, leave_out=("encodes",))
    assert [file.path for file in tree.walk().files] == ["encodes2/b.wav"]
    assert tree.walk("encodes/album").files == []


def test_files_that_differ_in_their_extension_alone_know_of_each_other(music: Path) -> None:
    for name in ("a.flac", "a.wav", "b.wav", "a.txt"):
        (music / name).touch()
    found = {file.path: file.shares_stem for file in Tree(music, Globs(["*.flac", "*.wav"], [])).walk().files}
    assert found == {"a.flac": True, "a.wav": True, "b.wav": False}
