"""Submissions of every kind: mostly sound ones, each with a field or two that somebody got wrong or meant badly."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from euterpe.model.duration import LONGEST_US
from euterpe.model.failures.backoff import LONGEST_DELAY_US, Backoff, Strategy
from euterpe.model.failures.retry import DEFAULT_RETRY, RetryPolicy
from euterpe.model.state import PLAIN_STAGES
from euterpe.model.submitting.submission import LATEST_US, Submission
from tests.conformance.clock import START_US

NASTY = [
    "\x00", "\ud800", "\udfff", "\u202e", "e\u0301", "\U0001f600", "\uffff", "\ufeff", "\x7f", "\x1b[2J", "\\", '"',
    "'", "%s", "{}", ":", ",", '":"', "\n", "null", "\u2100", "\u212a", "--", "$1", " ", "a/b", "*", "\x85", "\u2028",
]  # fmt: skip
anything = st.text(st.characters(exclude_categories=()), max_size=20)
nasty = st.lists(st.sampled_from(NASTY) | st.just("x"), min_size=1, max_size=4).map("".join)
decent = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=20)
text = decent | nasty | anything | st.sampled_from(["", "x" * 200, "x" * 201, "ü" * 256, "x" * 257])
whole = st.integers(-1, 6) | st.sampled_from(
    [True, 1.5, None, "1", 10**9, LONGEST_US - 1,
      LONGEST_US, LONGEST_US + 1, LATEST_US, 2**31, 2**63 - 1, 2**63, -(2**63)]
)  # fmt: skip

hosts = st.sampled_from(
    ["example.org", "EXAMPLE.org:8080", "127.0.0.1", "[::1]:9", "[", "]", "[::1", "[x]", "",
     "a\u2100b.c", "\uff21.c", "u:p@x",
     "x:0", "x:65535", "x:65536", "x:y", "a..b", "a.", "-a", "xn--a", "xn--\u00e4", "1", "0x7f.1", "1.2.3.4.5",
     "a" * 64]
)  # fmt: skip
urls = st.builds(
    "{}://{}{}".format,
    st.sampled_from(["http", "https", "HTTP", "ftp"]),
    hosts | text,
    st.sampled_from(["", "/", "/?q"]) | text,
)

backoffs = st.builds(
    lambda strategy, low, more, multiplier, jitter: Backoff(strategy, low, low + more, multiplier, jitter),
    st.sampled_from([Strategy.CONSTANT, Strategy.LINEAR, Strategy.EXPONENTIAL]),
    st.integers(0, 10**7) | st.just(LONGEST_DELAY_US // 2),
    st.integers(0, 10**12) | st.just(LONGEST_DELAY_US // 2),
    st.floats(1, 1000),
    st.floats(0, 1),
)
customs = decent.map(lambda name: Backoff(Strategy.CUSTOM, name=name))
policies = st.just(DEFAULT_RETRY) | st.builds(RetryPolicy, backoffs | customs, st.booleans(), st.booleans())

SOUND: dict[str, st.SearchStrategy[Any]] = {
    "type": decent,
    "queue": decent,
    "requester_id": decent,
    "payload": st.binary(max_size=20),
    "priority": st.integers(0, 4),
    "delay_us": st.sampled_from([0, 0, 1, 10**9]),
    "run_at": st.sampled_from([None, None, 0, START_US + 10**6, START_US + 10**10]),
    "max_attempts": st.sampled_from([1, 2, 3, 1000]),
    "execution_timeout_us": st.sampled_from([1, 10**9, LONGEST_US]),
    "visibility_us": st.sampled_from([10**6, 10**9, LONGEST_US]),
    "lifetime_us": st.sampled_from([10**11, LONGEST_US]),
    "retry": policies,
    "stages": st.just(PLAIN_STAGES) | st.lists(decent, max_size=3, unique=True).map(lambda names: ("claimed", *names)),
    "idempotency_key": st.none() | decent,
    "idempotency_window_us": st.sampled_from([None, 1, LONGEST_US]),
    "correlation_id": st.none() | decent,
    "tags": st.none() | st.dictionaries(decent, decent, max_size=3),
    "callback_url": st.sampled_from(
        [None, "https://example.org/hook", "http://[::1]:8080/", "HTTP://A-b.example:81/x?y=%20"]
    ),
    "callback_events": st.sampled_from(["all", "terminal"]),
}
WILD: dict[str, st.SearchStrategy[Any]] = {
    "type": text,
    "queue": text,
    "requester_id": text,
    "priority": whole,
    "delay_us": whole,
    "run_at": whole,
    "max_attempts": whole,
    "execution_timeout_us": whole,
    "visibility_us": whole,
    "lifetime_us": whole,
    "stages": st.lists(text, max_size=4).map(tuple) | st.lists(text, max_size=4).map(lambda names: ("claimed", *names)),
    "idempotency_key": text,
    "idempotency_window_us": whole,
    "correlation_id": text,
    "tags": st.dictionaries(text, text | whole, max_size=4),
    "callback_url": urls | text,
    "callback_events": text,
    "concurrency_key": text,
    "concurrency_limit": whole,
    "payload_format": text,
}


@st.composite
def submissions(draw: st.DrawFn) -> Submission:
    said = {name: draw(strategy) for name, strategy in SOUND.items()}
    said["payload_format"] = "bytes"
    if draw(st.booleans()):
        said |= {"concurrency_key": draw(decent), "concurrency_limit": draw(st.integers(1, 3))}
    for name in draw(st.lists(st.sampled_from(sorted(WILD)), max_size=2, unique=True)):
        said[name] = draw(WILD[name])
    return Submission(**said)
