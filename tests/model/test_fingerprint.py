"""What failures have in common, and what they have not."""

from __future__ import annotations

import time

import pytest

from euterpe.model.failures.fingerprint import FINGERPRINT, fingerprint_of, normalised
from tests.patience import in_time

SAME = [
    ("order 17 is gone", "order 4242 is gone"),
    ("no key 'a b' here", "no key 'c' here"),
    ('can\'t find "x"', 'can\'t find "some other"'),
    ("can't open 'x' or 'y'", "can't open 'z' or 'w'"),
    (
        "job b7c1f7f2-1f0a-4f7e-8a3c-0d0b8f1e2a55 died",
        "job 3f0c2a5e-8a54-4a0e-9d5b-6a2f5f6f4f11 died",
    ),
    ("object at 0x7f3a9c failed", "object at 0x55d1 failed"),
    ("commit deadbeef12 is bad", "commit 0a1b2c3d4e5f is bad"),
    ("open /srv/a/in.wav: no", "open /srv/b/c/other.flac: no"),
    ("open C:\\data\\a.txt: no", "open C:\\other\\b.txt: no"),
    ("GET https://a.example/x?y=1 said 503", "GET https://b.example/ said 500"),
    ("mail to a@x.example bounced", "mail to b.c@y.example bounced"),
    ("took 12.5 s", "took 3 s"),
    ("missing [1, 2, 3]", "missing [7]"),
    ("token 01J9ZK3TQXA7B8C9D0 is old", "token 01J9ZK3TQX11112222 is old"),
    ("a\n  b", "a b"),
]
DIFFERENT = [
    ("order 17 is gone", "order 17 is late"),
    ("no such column", "no such table"),
    ("the decade is over", "the facade is over"),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_what_is_a_jobs_own_does_not_count(a: str, b: str) -> None:
    assert normalised(a) == normalised(b)
    assert fingerprint_of("t", "c", a) == fingerprint_of("t", "c", b)


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_another_message_is_another_cause(a: str, b: str) -> None:
    assert fingerprint_of("t", "c", a) != fingerprint_of("t", "c", b)


def test_type_and_code_are_part_of_the_cause() -> None:
    assert len({fingerprint_of(t, c, "x") for t in ("a", "b") for c in ("p", "q")}) == 4
    assert FINGERPRINT.fullmatch(fingerprint_of("t", "c", "\udc80 lone"))


@pytest.mark.parametrize("piece", ["'", "/", "a/", "1.", "\\", "a@", "a.", "0x", "f", "://", "<id> ", '"a'])
def test_a_hostile_message_takes_no_longer_than_others(piece: str) -> None:
    began = time.process_time()
    normalised(piece * 4_000)
    in_time(time.process_time() - began, 0.25)
