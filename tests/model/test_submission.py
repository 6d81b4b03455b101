"""The checks of a submission: for every field its bad values, each refused by the field's own name."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.model.dependency import Dependency
from euterpe.model.duration import LONGEST_US
from euterpe.model.errors import DependencyLimit, InvalidInput, PayloadTooLarge, UnknownDependency
from euterpe.model.failures.retry import DEFAULT_RETRY
from euterpe.model.state import TRANSCODE_STAGES
from euterpe.model.submitting.submission import (
    EXECUTION_TIMEOUT_US,
    IDEMPOTENCY_WINDOW_US,
    LATEST_US,
    LIFETIME_US,
    PAYLOAD_CEILING,
    PAYLOAD_LIMIT,
    SUBMISSION_TIMEOUT_US,
    VISIBILITY_US,
    Submission,
    check,
)

BAD_NAMES: list[Any] = ["", "x" * 201, "a\x00b", "\ud800", None, 7, b"bytes"]
BAD_TEXT: list[Any] = ["x" * 257, "a\x00b", "\udfff", 7, b"bytes", ["list"]]
BAD_WHOLE: list[Any] = [-1, 1.5, "1", None, True]
SOME_ID = "00000000-0000-4000-8000-000000000000"

BAD: dict[str, list[dict[str, Any]]] = {
    "type": [{"type": name} for name in BAD_NAMES],
    "queue": [{"queue": name} for name in BAD_NAMES],
    "requester_id": [{"requester_id": name} for name in BAD_NAMES],
    "payload": [{"payload": value} for value in ("text", None, {"a": 1}, bytearray(b"x"), b"x" * (PAYLOAD_LIMIT + 1))],
    "payload_format": [{"payload_format": value} for value in ("xml", "", None, "JSON")],
    "priority": [{"priority": value} for value in (*BAD_WHOLE, 5)],
    "max_attempts": [{"max_attempts": value} for value in (*BAD_WHOLE, 0, 1001)],
    "delay": [{"delay_us": value} for value in (*BAD_WHOLE, LONGEST_US + 1)],
    "run_at": [{"run_at": value} for value in (-1, 1.5, "now", True, LATEST_US + 1)],
    "timeout": [{"execution_timeout_us": value} for value in (*BAD_WHOLE, 0, LONGEST_US + 1)],
    "visibility": [{"visibility_us": value} for value in (*BAD_WHOLE, 0, LONGEST_US + 1)],
    "lifetime": [{"lifetime_us": value} for value in (*BAD_WHOLE, 0, LONGEST_US + 1)],
    "retry": [{"retry": None}, {"retry": "never"}, {"retry": {}}],
    "stages": [
        {"stages": value}
        for value in (
            (), ("fetching",), ("claimed", "claimed"), ("claimed", ""), ("claimed", "a\x00"), ("claimed", 7),
            ["claimed"], ("claimed", *(f"s{i}" for i in range(50))), ("claimed", "x" * 51), "claimed", None,
        )
    ],
    "idempotency_key": [{"idempotency_key": value} for value in (*BAD_TEXT, "")],
    "idempotency_window": [{"idempotency_window_us": value} for value in (-1, 1.5, "1", True, 0, LONGEST_US + 1)],
    "correlation_id": [{"correlation_id": value} for value in BAD_TEXT],
    "tags": [{"tags": v} for v in ("a", ["a"], {"": "x"}, {7: "x"}, {"\x00": "x"}, {str(i): "" for i in range(65)})],
    "tags.team": [{"tags": {"team": value}} for value in (*BAD_TEXT, None)],
    "depends_on": [{"depends_on": value} for value in (SOME_ID, [SOME_ID], None, (7,), ("\ud800",), ("x",) * 1001)],
    "dependency": [{"depends_on": (SOME_ID,), "dependency": v} for v in ("after", None, Dependency.FAN_OUT)],
    "callback_url": [
        {"callback_url": value} for value in ("", "ftp://x", "x", "https://x/\x00", "https://" + "x" * 2000, 7, "HTTPS")
    ],
    "callback_events": [{"callback_events": value} for value in ("", "some", None, ["all"])],
    "concurrency_key": [{"concurrency_key": value, "concurrency_limit": 1} for value in (*BAD_TEXT, "")],
    "concurrency_limit": [
        {"concurrency_limit": 1},
        *({"concurrency_key": "k", "concurrency_limit": value} for value in (0, -1, "1", True, 1_000_001)),
    ],
    "unique_key": [{"unique_key": value} for value in (*BAD_TEXT, "")],
    "unique": [{"unique_key": "k", "unique": value} for value in ("waiting", None, 7)],
}  # fmt: skip


@pytest.mark.parametrize(
    ("field", "said"),
    [(field, said) for field, all_said in BAD.items() for said in all_said],
    ids=lambda x: repr(x)[:60],
)
def test_a_bad_value_is_refused_by_the_name_of_its_field(field: str, said: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        check(Submission(**({"type": "t"} | said)))
    assert refused.value.field == field
    assert str(refused.value).startswith(f"{field}: ")


def test_every_field_a_user_may_say_has_bad_values_here() -> None:
    said = {name for bad in BAD.values() for one in bad for name in one}
    assert said >= set(Submission.__struct_fields__) - {"replay_of", "expected_us"}


GOOD: list[dict[str, Any]] = [
    {},
    {"type": "x" * 200, "queue": "ü" * 200},
    {"priority": 0},
    {"priority": 4},
    {"delay_us": LONGEST_US - 1, "lifetime_us": LONGEST_US},
    {"run_at": 0},
    {"run_at": LATEST_US},
    {"max_attempts": 1000},
    {"execution_timeout_us": 1, "visibility_us": 1_000_000, "lifetime_us": 1},
    {"stages": TRANSCODE_STAGES},
    {"idempotency_key": "k" * 256, "correlation_id": ""},
    {"tags": {}},
    {"tags": {str(i): "" for i in range(64)}},
    {"depends_on": (SOME_ID,), "dependency": Dependency.FAN_IN},
    {"depends_on": tuple(SOME_ID for _ in range(1000))},
    {"callback_url": "http://x"},
    {"callback_url": "https://x/" + "x" * 1990, "callback_events": "terminal"},
    {"concurrency_key": "k", "concurrency_limit": 1_000_000},
    {"payload": b"", "payload_format": "bytes"},
    {"payload": b"x" * PAYLOAD_LIMIT},
]


@pytest.mark.parametrize("said", GOOD, ids=lambda x: repr(x)[:60])
def test_a_value_at_the_edge_of_what_is_allowed_is_accepted(said: dict[str, Any]) -> None:
    check(Submission(**({"type": "t"} | said)))


def test_some_errors_are_of_their_own_kind() -> None:
    with pytest.raises(PayloadTooLarge):
        check(Submission(type="t", payload=b"x" * 11), payload_limit=10)
    with pytest.raises(DependencyLimit):
        check(Submission(type="t", depends_on=(SOME_ID,) * 1001))
    with pytest.raises(UnknownDependency):
        check(Submission(type="t", depends_on=("ü",)))


def test_the_payload_limit_is_the_callers_to_set() -> None:
    check(Submission(type="t", payload=b"x" * PAYLOAD_CEILING), payload_limit=PAYLOAD_CEILING)


def test_defaults_are_those_of_the_specification() -> None:
    minute = 60 * 1_000_000
    assert 30 * minute == EXECUTION_TIMEOUT_US
    assert 5 * minute == VISIBILITY_US
    assert minute // 2 == SUBMISSION_TIMEOUT_US
    assert 7 * 24 * 60 * minute == LIFETIME_US
    assert 24 * 60 * minute == IDEMPOTENCY_WINDOW_US
    assert (PAYLOAD_LIMIT, PAYLOAD_CEILING) == (1_000_000, 16_000_000)
    plain = Submission(type="t")
    assert (plain.priority, plain.max_attempts, plain.retry, plain.dependency) == (
        2,
        3,
        DEFAULT_RETRY,
        Dependency.AFTER,
    )


def test_a_submission_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Submission(type="t").payload = b"other"  # type: ignore[misc]


@given(st.text(max_size=300))
def test_any_text_for_a_key_is_either_accepted_or_refused_by_name(key: str) -> None:
    if 1 <= len(key) <= 256 and "\x00" not in key:
        check(Submission(type="t", idempotency_key=key))
        msgspec.json.encode(key)
        return
    with pytest.raises(InvalidInput) as refused:
        check(Submission(type="t", idempotency_key=key))
    assert refused.value.field == "idempotency_key"


def test_a_visibility_below_a_second_is_refused_for_its_keeper_would_do_nothing_else() -> None:
    for visibility_us in (1, 999_999):
        with pytest.raises(InvalidInput, match=r"^visibility"):
            check(Submission(type="t", visibility_us=visibility_us))


def test_a_duration_out_of_range_is_told_as_people_write_it() -> None:
    with pytest.raises(InvalidInput, match=r"^lifetime: 0s is not between 1us and 3650d$"):
        check(Submission(type="t", lifetime_us=0))


def test_a_delay_that_is_as_long_as_the_lifetime_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^delay"):
        check(Submission(type="t", delay_us=LIFETIME_US))
    with pytest.raises(InvalidInput, match=r"^delay"):
        check(Submission(type="t", delay_us=11, lifetime_us=11))
    check(Submission(type="t", delay_us=10, lifetime_us=11))
