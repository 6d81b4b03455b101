"""The normalized error: bounded, always encodable, one of five categories."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.model.errors import PermanentError, TemporaryError
from euterpe.model.failures.failure import MESSAGE_LIMIT, STACK_LIMIT, Category, Failure

any_text = st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF, exclude_categories=()), max_size=50)


def test_there_are_five_categories() -> None:
    assert {str(c) for c in Category} == {"temporary", "permanent", "timeout", "cancelled", "system"}


def test_an_error_says_what_happened_in_which_attempt() -> None:
    failure = Failure(Category.TEMPORARY, "no answer", code="storage.down", stack="Traceback", http_status=503)
    assert failure.as_error(2, retryable=True) == {
        "code": "storage.down",
        "category": "temporary",
        "message": "no answer",
        "retryable": True,
        "attempt": 2,
        "stack": "Traceback",
        "http_status": 503,
    }


def test_an_error_leaves_out_what_is_not_known() -> None:
    assert set(Failure(Category.PERMANENT, "x").as_error(1, retryable=False)) == {
        "code", "category", "message", "retryable", "attempt",
    }  # fmt: skip


def test_long_messages_keep_their_beginning_and_long_stacks_their_end() -> None:
    error = Failure(Category.SYSTEM, "a" + "b" * 10_000, stack="c" * 50_000 + "d").as_error(1, retryable=True)
    assert (len(error["message"]), error["message"][0]) == (MESSAGE_LIMIT, "a")
    assert (len(error["stack"]), error["stack"][-1]) == (STACK_LIMIT, "d")


@given(any_text, any_text, any_text)
def test_whatever_a_handler_says_can_be_stored(message: str, code: str, stack: str) -> None:
    error = Failure(Category.SYSTEM, message, code, stack).as_error(1, retryable=True)
    encoded = msgspec.json.encode(error)
    assert b"\x00" not in encoded
    decoded = msgspec.json.decode(encoded)
    if not any("\ud800" <= c <= "\udfff" for c in message):
        assert decoded["message"] == message


def test_handlers_raise_errors_that_carry_what_the_contract_names() -> None:
    cause = ValueError("deep")
    temporary = TemporaryError("later", cause, "5s")
    assert (temporary.message, temporary.cause, temporary.retry_after) == ("later", cause, "5s")
    permanent = PermanentError("never", cause, code="bad_payload")
    assert (permanent.message, permanent.cause, permanent.code) == ("never", cause, "bad_payload")
    assert PermanentError("never").code


@pytest.mark.parametrize("error", [TemporaryError("x"), PermanentError("x")])
def test_a_handlers_error_is_not_one_of_the_librarys_own(error: Exception) -> None:
    from euterpe.model.errors import EuterpeError

    assert not isinstance(error, EuterpeError)
