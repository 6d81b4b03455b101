"""The signer: the contract's headers, the standard's beside them, and no careless input."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from standardwebhooks.webhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError as StandardError

from euterpe.webhook.signing import InvalidSecret, new_nonce, new_secret, sign

BODY = b'{"event_id": "evt_1"}'
NONCE = "0123456789abcdef"


def _sign(secret: str | list[str], body: bytes = BODY, timestamp: int = 1_790_000_000) -> dict[str, str]:
    return sign(secret, body, event_id="evt_1", timestamp=timestamp, nonce=NONCE)


def test_the_signature_covers_timestamp_nonce_and_body_with_the_secret_as_printed() -> None:
    secret = new_secret()
    by_hand = hmac.new(secret.encode(), b"1790000000." + NONCE.encode() + b"." + BODY, hashlib.sha256)
    assert _sign(secret)["x-euterpe-signature"] == by_hand.hexdigest()


def test_without_rotation_there_is_no_second_signature() -> None:
    assert set(_sign(new_secret())) == {
        "x-euterpe-signature",
        "x-euterpe-timestamp",
        "x-euterpe-nonce",
        "x-euterpe-event-id",
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
    }


def test_a_rotation_leaves_the_four_headers_as_the_first_secret_alone_makes_them() -> None:
    new, old = new_secret(), new_secret()
    both, alone = _sign([new, old]), _sign(new)
    four = [name for name in alone if name.startswith("x-euterpe-")]
    assert len(four) == 4
    assert {name: both[name] for name in four} == {name: alone[name] for name in four}
    assert both["x-euterpe-signature-2"] == _sign(old)["x-euterpe-signature"]


def test_secrets_are_256_fresh_bits_in_base64() -> None:
    made = {new_secret() for _ in range(100)}
    assert len(made) == 100
    assert all(len(base64.b64decode(one.removeprefix("whsec_"), validate=True)) == 32 for one in made)


def test_nonces_are_fresh_and_fit_the_signer() -> None:
    made = {new_nonce() for _ in range(1000)}
    assert len(made) == 1000
    for nonce in made:
        sign(new_secret(), BODY, event_id="evt_1", timestamp=1, nonce=nonce)


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        "whsec_ !",
        "plain words",
        " whsec_" + "A" * 43 + "=",
        "whsec_" + "A" * 43 + "=\n",
        "whsec_" + "A" * 8,
        "WHSEC_" + "A" * 43 + "=",
        [],
    ],
)
def test_a_wrong_secret_is_refused_without_repeating_it(secret: str | list[str]) -> None:
    with pytest.raises(InvalidSecret, match="secret") as caught:
        _sign(secret)
    assert "AAAA" not in str(caught.value)


def test_three_active_secrets_are_one_too_many() -> None:
    with pytest.raises(InvalidSecret, match="at most 2"):
        _sign([new_secret(), new_secret(), new_secret()])


@pytest.mark.parametrize("nonce", ["", "short", "has.a.dot.inside.it", "has space inside it", "é" * 20, "a" * 129])
def test_a_nonce_that_could_blur_the_border_is_refused(nonce: str) -> None:
    with pytest.raises(ValueError, match="nonce"):
        sign(new_secret(), BODY, event_id="evt_1", timestamp=1, nonce=nonce)


@pytest.mark.parametrize("event_id", ["", "two words", "line\r\nbreak", "é", "a" * 257])
def test_an_event_id_that_is_no_header_value_is_refused(event_id: str) -> None:
    with pytest.raises(ValueError, match="event_id"):
        sign(new_secret(), BODY, event_id=event_id, timestamp=1, nonce=NONCE)


@pytest.mark.parametrize("timestamp", [0, -1, 10**11, 1.5, True, "1"])
def test_a_timestamp_is_whole_seconds(timestamp: int) -> None:
    with pytest.raises(ValueError, match="timestamp"):
        _sign(new_secret(), timestamp=timestamp)


def test_a_body_is_bytes() -> None:
    with pytest.raises(TypeError, match="body"):
        _sign(new_secret(), body="text")  # type: ignore[arg-type]


class TestWithTheStockLibrary:
    """`standardwebhooks` looks at the real clock, so these sign with it."""

    @pytest.mark.parametrize("receiver", [0, 1])
    @pytest.mark.parametrize("body", [BODY, '{"event_id": "evt_1", "t": "音楽"}'.encode()])
    def test_it_accepts_our_delivery_with_either_secret(self, body: bytes, receiver: int, now_s: int) -> None:
        secrets = [new_secret(), new_secret()]
        payload = Webhook(secrets[receiver]).verify(body, _sign(secrets, body, now_s))
        assert payload["event_id"] == "evt_1"

    def test_it_refuses_a_changed_body_and_a_stranger(self, now_s: int) -> None:
        secret = new_secret()
        headers = _sign(secret, BODY, now_s)
        with pytest.raises(StandardError):
            Webhook(secret).verify(BODY + b" ", headers)
        with pytest.raises(StandardError):
            Webhook(new_secret()).verify(BODY, headers)
