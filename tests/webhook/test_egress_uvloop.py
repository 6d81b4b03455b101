"""The same behaviour on uvloop, whose transports are not asyncio's: a choice of the calls of the other files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from euterpe.egress.errors import EgressFailure
from tests.webhook import test_egress_calls as calls
from tests.webhook import test_egress_refusals as refusals
from tests.webhook import test_egress_tls as tls
from tests.webhook.canary import serving

uvloop = pytest.importorskip("uvloop", reason="uvloop is not for this platform; asyncio's own loop was tested")

Scenario = Callable[[], Coroutine[None, None, None]]
SIZED = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabcde"
ordinary, misbehaving, downloads = calls.TestAnOrdinaryCall(), calls.TestServersThatMisbehave(), calls.TestDownloads()

SCENARIOS: dict[str, Scenario] = {
    "reuse": lambda: ordinary.test_connections_are_used_again(SIZED),
    "end with the connection": ordinary.test_a_body_may_end_with_the_connection,
    "idle connections": ordinary.test_idle_connections_are_closed_after_their_time,
    "large body": ordinary.test_a_large_body_is_sent_whole,
    "many at once": ordinary.test_many_calls_at_once_each_get_their_own_answer,
    "deadline": lambda: misbehaving.test_the_slow_are_cut_off_at_the_deadline(calls.HEAD, b"x", 0.01),
    "header flood": lambda: misbehaving.test_liars_and_flooders_are_cut_off_long_before_the_deadline(
        calls.HEAD, b"x: y\r\n" * 1000, EgressFailure.HEADERS_TOO_LARGE
    ),
    "gigabyte": lambda: misbehaving.test_of_an_answer_of_a_gigabyte_64_kilobytes_are_read(
        calls.HEAD + b"\r\n", calls.MANY
    ),
    "hang up": lambda: misbehaving.test_a_server_that_hangs_up_early_failed(calls.HEAD),
    "nobody there": misbehaving.test_nobody_there_is_a_failure_to_connect,
    "poison": misbehaving.test_the_next_caller_never_gets_an_answer_that_was_sent_before_it_asked,
    "idle flood": misbehaving.test_a_flood_on_an_idle_connection_is_cut_off,
    "cancel": misbehaving.test_a_cancelled_call_closes_its_connection,
    "download": downloads.test_a_body_arrives_piece_by_piece_with_flat_memory,
    "stall": lambda: downloads.test_a_download_that_stalls_is_ended(60, 0.25),
    "moving name": refusals.test_a_pooled_connection_does_not_outlive_the_address_it_was_opened_for,
}
TLS_SCENARIOS: dict[str, Callable[[tls.Authority], Coroutine[None, None, None]]] = {
    "right name": tls.test_the_right_name_is_asked_for_and_trusted,
    "wrong name": tls.test_a_certificate_for_another_name_is_refused_before_anything_is_sent,
    "no other name": tls.test_a_connection_trusted_for_one_name_serves_no_other,
    "no handshake": tls.test_a_server_that_never_shakes_hands_is_given_up_on,
}


def _run(scenario: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_call_on_uvloop_behaves_the_same(name: str) -> None:
    _run(SCENARIOS[name]())


@pytest.mark.parametrize("name", TLS_SCENARIOS)
def test_tls_on_uvloop_behaves_the_same(name: str, tmp_path: Path) -> None:
    _run(TLS_SCENARIOS[name](tls.make_authority(tmp_path)))


def test_no_hostile_url_reaches_the_canary_on_uvloop() -> None:
    async def scenario() -> None:
        async with serving() as canary:
            await refusals.test_no_hostile_url_reaches_the_canary(canary)

    _run(scenario())
