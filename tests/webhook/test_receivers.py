"""The two example receivers, run as real programs and called through our own egress client."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest

from euterpe.egress.client import Egress
from euterpe.egress.target import EgressPolicy
from euterpe.webhook.signing import new_nonce, new_secret, sign
from tests.webhook.running import EXAMPLES, running
from tests.webhook.tools import require

NEW, OLD = new_secret(), new_secret()


def _node() -> list[str]:
    return [require("node"), str(EXAMPLES / "receiver.mjs")]


def _python() -> list[str]:
    return [sys.executable, str(EXAMPLES / "receiver.py")]


@pytest.fixture(params=[_node, _python], ids=["node", "python"])
def command(request: pytest.FixtureRequest) -> list[str]:
    make: Callable[[], list[str]] = request.param
    return make()


def _event(number: int) -> tuple[str, bytes]:
    event_id = f"evt_{number}"
    body = {"event_id": event_id, "type": "job.completed", "sequence": number, "title": "音楽"}
    return event_id, json.dumps(body, ensure_ascii=False).encode()


async def test_a_receiver_prints_what_is_genuine_and_refuses_the_rest(command: list[str], now_s: int) -> None:
    event_id, body = _event(1)
    good = sign([NEW, OLD], body, event_id=event_id, timestamp=now_s, nonce=new_nonce())
    late = sign(NEW, body, event_id=event_id, timestamp=now_s - 1000, nonce=new_nonce())
    with running(command, [NEW]) as receiver:
        async with Egress(EgressPolicy(allow_loopback=True)) as egress:
            assert (await egress.post(receiver.url, body, good)).status == 204
            assert receiver.next_line() == {"event_id": "evt_1", "type": "job.completed", "sequence": 1}
            assert (await egress.post(receiver.url, body, good)).status == 401  # a replay
            assert (await egress.post(receiver.url, body + b" ", good)).status == 401
            assert (await egress.post(receiver.url, body, late)).status == 401
            assert (await egress.post(receiver.url, body, {})).status == 401
            again = sign(NEW, body, event_id=event_id, timestamp=now_s, nonce=new_nonce())
            assert (await egress.post(receiver.url, body, again)).status == 204  # a true redelivery
            assert receiver.next_line()["event_id"] == "evt_1"
    assert receiver.lines.empty()


@pytest.mark.parametrize(
    ("sender", "receiver_knows", "status"),
    [
        ([OLD], [NEW, OLD], 204),
        ([NEW, OLD], [OLD], 204),
        ([NEW, OLD], [NEW], 204),
        ([NEW], [NEW, OLD], 204),
        ([NEW], [OLD], 401),
    ],
    ids=["prepared", "not yet changed", "changed", "old one still listed", "too late"],
)
async def test_a_receiver_follows_a_rotation(
    command: list[str], sender: list[str], receiver_knows: list[str], status: int, now_s: int
) -> None:
    event_id, body = _event(2)
    headers = sign(sender, body, event_id=event_id, timestamp=now_s, nonce=new_nonce())
    with running(command, receiver_knows) as receiver:
        async with Egress(EgressPolicy(allow_loopback=True)) as egress:
            assert (await egress.post(receiver.url, body, headers)).status == status
