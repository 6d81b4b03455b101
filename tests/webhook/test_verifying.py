"""The receiver's side beyond the vectors: header shapes, replay windows, stores, and what stays
unremembered.
"""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.model.errors import EuterpeError
from euterpe.webhook.signing import new_nonce, new_secret, sign
from euterpe.webhooks import (
    EventIdMismatch,
    InvalidSecret,
    InvalidSignature,
    MalformedHeader,
    MemoryNonces,
    NoncesCheckedElsewhere,
    NonceStoreFull,
    ReplayedNonce,
    StaleTimestamp,
    WebhookVerificationError,
    verify,
)

SECRET = new_secret()
NOW = 1_790_000_000
BODY = b'{"event_id": "evt_1", "sequence": 4}'


def _delivery(timestamp: int = NOW, secret: str | list[str] = SECRET, body: bytes = BODY) -> dict[str, str]:
    return sign(secret, body, event_id="evt_1", timestamp=timestamp, nonce=new_nonce())


def test_a_genuine_delivery_gives_its_event() -> None:
    headers = _delivery()
    event = verify(headers, BODY, SECRET, nonces=MemoryNonces(), now=NOW)
    assert event.event_id == "evt_1"
    assert event.payload == {"event_id": "evt_1", "sequence": 4}
    assert (event.timestamp, event.nonce, event.secret_index) == (NOW, headers["x-euterpe-nonce"], 0)


@given(st.integers(0, 2**32))
def test_header_names_count_in_any_case(seed: int) -> None:
    headers = {
        "".join(c.upper() if seed >> (i % 32) & 1 else c for i, c in enumerate(name)): value
        for name, value in _delivery().items()
    }
    verify(headers, BODY, SECRET, nonces=MemoryNonces(), now=NOW)


def test_headers_may_be_pairs_of_bytes_as_asgi_gives_them() -> None:
    pairs = [(name.encode(), value.encode()) for name, value in _delivery().items()]
    verify(pairs, BODY, SECRET, nonces=MemoryNonces(), now=NOW)


def test_a_header_that_comes_twice_with_two_values_is_refused() -> None:
    pairs = [*_delivery().items(), ("X-Euterpe-Nonce", new_nonce())]
    with pytest.raises(MalformedHeader) as caught:
        verify(pairs, BODY, SECRET, nonces=MemoryNonces(), now=NOW)
    assert caught.value.header == "x-euterpe-nonce"


@pytest.mark.parametrize("body", [BODY.decode(), bytearray(BODY), {"event_id": "evt_1"}])
def test_only_raw_bytes_can_be_verified(body: bytes) -> None:
    with pytest.raises(TypeError, match="raw bytes"):
        verify(_delivery(), body, SECRET, now=NOW)


def test_a_secret_with_a_line_feed_is_named_as_such() -> None:
    with pytest.raises(InvalidSecret, match="white space"):
        verify(_delivery(), BODY, SECRET + "\n", now=NOW)


@pytest.mark.parametrize("known", [0, 1])
def test_while_rotating_either_secret_is_enough(known: int) -> None:
    secrets = [new_secret(), new_secret()]
    headers = _delivery(secret=secrets)
    assert verify(headers, BODY, secrets[known], nonces=MemoryNonces(), now=NOW).secret_index == 0
    both = verify(headers, BODY, [new_secret(), secrets[known]], nonces=MemoryNonces(), now=NOW)
    assert both.secret_index == 1


@pytest.mark.parametrize("skew_s", [-301, 301, -86_400, 10**8])
def test_a_timestamp_outside_the_window_is_stale(skew_s: int) -> None:
    with pytest.raises(StaleTimestamp) as caught:
        verify(_delivery(NOW + skew_s), BODY, SECRET, now=NOW)
    assert caught.value.skew_s == skew_s


def test_the_window_can_be_narrowed() -> None:
    with pytest.raises(StaleTimestamp):
        verify(_delivery(NOW - 31), BODY, SECRET, now=NOW, tolerance_s=30)


def test_a_replay_is_refused_and_a_redelivery_with_its_own_nonce_is_not() -> None:
    nonces = MemoryNonces()
    first = _delivery()
    verify(first, BODY, SECRET, nonces=nonces, now=NOW)
    with pytest.raises(ReplayedNonce):
        verify(first, BODY, SECRET, nonces=nonces, now=NOW + 10)
    assert verify(_delivery(NOW + 10), BODY, SECRET, nonces=nonces, now=NOW + 10).event_id == "evt_1"


def test_without_a_store_of_its_own_a_process_still_refuses_replays() -> None:
    delivery = _delivery()
    verify(delivery, BODY, SECRET, now=NOW)
    with pytest.raises(ReplayedNonce):
        verify(delivery, BODY, SECRET, now=NOW)


@given(sent=st.integers(-300, 300), tolerance_s=st.integers(1, 900), later=st.integers(0, 2000))
def test_no_replay_is_accepted_at_any_later_time(sent: int, tolerance_s: int, later: int) -> None:
    nonces = MemoryNonces()
    headers = _delivery(NOW + sent)
    try:
        verify(headers, BODY, SECRET, nonces=nonces, now=NOW, tolerance_s=tolerance_s)
    except StaleTimestamp:
        return
    with pytest.raises((ReplayedNonce, StaleTimestamp)):
        verify(headers, BODY, SECRET, nonces=nonces, now=NOW + later, tolerance_s=tolerance_s)


@pytest.mark.parametrize("sent", [-300, 0, 300])
def test_a_nonce_is_remembered_for_at_least_five_minutes(sent: int) -> None:
    event = verify(_delivery(NOW + sent), BODY, SECRET, nonces=MemoryNonces(), now=NOW)
    assert event.nonce_expires_at >= NOW + 300
    assert event.nonce_expires_at >= NOW + sent + 300


def test_what_is_refused_uses_up_no_nonce() -> None:
    nonces = MemoryNonces()
    genuine = _delivery()
    refusals: list[type[WebhookVerificationError]] = [InvalidSignature, StaleTimestamp, EventIdMismatch]
    attempts = [
        (genuine | {"x-euterpe-signature": "0" * 64}, NOW),
        (genuine, NOW + 1000),
        (genuine | {"x-euterpe-event-id": "evt_2"}, NOW),
    ]
    for refusal, (headers, now) in zip(refusals, attempts, strict=True):
        with pytest.raises(refusal):
            verify(headers, BODY, SECRET, nonces=nonces, now=now)
    assert len(nonces) == 0
    verify(genuine, BODY, SECRET, nonces=nonces, now=NOW)


def test_a_full_store_refuses_rather_than_forgets() -> None:
    nonces = MemoryNonces(max_nonces=2)
    for _ in range(2):
        verify(_delivery(), BODY, SECRET, nonces=nonces, now=NOW)
    with pytest.raises(NonceStoreFull, match="503"):
        verify(_delivery(), BODY, SECRET, nonces=nonces, now=NOW)
    later = NOW + 301
    verify(_delivery(later), BODY, SECRET, nonces=nonces, now=later)
    assert len(nonces) == 1


def test_of_many_threads_with_one_delivery_exactly_one_wins() -> None:
    nonces, delivery, start = MemoryNonces(), _delivery(), threading.Barrier(8)

    def receive() -> str:
        start.wait(10)
        try:
            verify(delivery, BODY, SECRET, nonces=nonces, now=NOW)
        except ReplayedNonce:
            return "replayed"
        return "accepted"

    with ThreadPoolExecutor(8) as pool:
        outcomes = Counter(future.result() for future in [pool.submit(receive) for _ in range(8)])
    assert outcomes == {"accepted": 1, "replayed": 7}


def test_a_receiver_may_check_nonces_by_itself() -> None:
    delivery = _delivery()
    for _ in range(2):
        event = verify(delivery, BODY, SECRET, nonces=NoncesCheckedElsewhere(), now=NOW)
        assert event.nonce == delivery["x-euterpe-nonce"]


@given(position=st.integers(0, len(BODY) * 8 - 1))
def test_any_flipped_bit_of_the_body_is_noticed(position: int) -> None:
    changed = bytearray(BODY)
    changed[position // 8] ^= 1 << (position % 8)
    with pytest.raises(InvalidSignature):
        verify(_delivery(), bytes(changed), SECRET, now=NOW)


@given(st.dictionaries(st.sampled_from(list(_delivery())), st.text(max_size=100)), st.binary(max_size=50))
def test_garbage_ends_in_a_verification_error_and_nothing_else(headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(WebhookVerificationError):
        verify(headers, body, SECRET, now=NOW)


@pytest.mark.parametrize("value", ["\udcff", "é" * 64, "\x00", ""])
def test_a_signature_that_is_no_text_of_ours_is_just_wrong(value: str) -> None:
    with pytest.raises(InvalidSignature):
        verify(_delivery() | {"x-euterpe-signature": value}, BODY, SECRET, now=NOW)


def test_a_deeply_nested_body_is_refused_quietly() -> None:
    body = b"[" * 100_000
    with pytest.raises(WebhookVerificationError):
        verify(_delivery(body=body), body, SECRET, now=NOW)


def test_every_error_hangs_under_the_library_root() -> None:
    assert issubclass(WebhookVerificationError, EuterpeError)
    assert issubclass(InvalidSecret, EuterpeError)


def test_neither_errors_nor_events_show_secrets_or_payloads() -> None:
    event = verify(_delivery(), BODY, SECRET, nonces=MemoryNonces(), now=NOW)
    assert "sequence" not in repr(event)
    with pytest.raises(InvalidSignature) as caught:
        verify(_delivery() | {"x-euterpe-signature": "0" * 64}, BODY, SECRET, now=NOW)
    assert SECRET not in repr(caught.value)
