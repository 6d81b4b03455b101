"""Which files are meant."""

from __future__ import annotations

import pytest

from euterpe.producer.globs import Globs


@pytest.mark.parametrize(
    ("glob", "taken", "left"),
    [
        ("**/*", ["a", "a/b", "a/b/c.wav", "new\nline"], []),
        ("*.wav", ["a.wav", "deep/down/a.wav"], ["a.wave", "a.wav/b"]),
        ("album/*.wav", ["album/a.wav"], ["a.wav", "album/cd1/a.wav", "an album/a.wav"]),
        ("/a.wav", ["a.wav"], ["b/a.wav"]),
        ("album/**", ["album/a", "album/b/c"], ["album", "other/album/a"]),
        ("**/cd?/*", ["cd1/a", "x/y/cd2/a"], ["cd10/a", "cd/a"]),
        ("a[0-9].wav", ["a1.wav"], ["ab.wav", "a12.wav"]),
        ("a[!0-9].wav", ["ab.wav"], ["a1.wav", "a/.wav"]),
        ("[x.wav", ["[x.wav"], ["x.wav"]),
        ("1+1(2).wav", ["1+1(2).wav"], ["11(2).wav"]),
    ],
)
def test_a_glob_takes_what_it_says_and_no_more(glob: str, taken: list[str], left: list[str]) -> None:
    globs = Globs([glob], [])
    assert [path for path in (*taken, *left) if globs.take(path)] == taken


def test_an_exclude_wins_and_a_closed_folder_is_not_entered() -> None:
    globs = Globs(["*.wav"], ["drafts/**", "*.tmp.wav"])
    assert [globs.take(path) for path in ("a.wav", "a.tmp.wav", "drafts/a.wav")] == [True, False, False]
    assert [globs.enter(folder) for folder in ("drafts", "music", "music/drafts")] == [False, True, True]
