"""Nothing inside is ever called: hostile URLs, rebinding names, redirects and proxies, as a canary sees it."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator

import pytest

from euterpe.egress.client import Egress
from euterpe.egress.errors import EgressFailed, EgressFailure, EgressRefusal, EgressRefused
from euterpe.egress.resolution import CachingResolver, SystemResolver
from euterpe.egress.target import DEFAULT_PORTS, EgressPolicy, check_url
from tests.webhook.canary import Canary, Names, answering, serving
from tests.webhook.hostile_urls import HOSTILE_URLS

PUBLIC = "93.184.215.14"
OTHER_PUBLIC = "2606:2800:21f:cb07:6820:80da:af6b:8b2c"


@pytest.fixture
async def canary() -> AsyncIterator[Canary]:
    async with serving() as server:
        yield server


@pytest.fixture
def connects(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every address that a socket is told to connect to; none gets there, so that no test leaves this machine."""
    attempts: list[str] = []

    async def refuse(_loop: object, _sock: object, address: tuple[str, int]) -> None:
        attempts.append(address[0])
        raise OSError(errno.ENETUNREACH, f"Connect call failed {address}")  # as asyncio words it

    monkeypatch.setattr(asyncio.selector_events.BaseSelectorEventLoop, "sock_connect", refuse)
    return attempts


def _open_ports(canary: Canary) -> EgressPolicy:
    """Strict but for the canary's port, so that it is never the port alone that saves us."""
    return EgressPolicy(ports=DEFAULT_PORTS | {canary.port})


def test_the_corpus_is_large_and_free_of_repeats() -> None:
    assert len(set(HOSTILE_URLS)) == len(HOSTILE_URLS) >= 60


async def test_the_canary_sings_when_loopback_is_allowed(canary: Canary) -> None:
    async with Egress(EgressPolicy(allow_loopback=True), resolver=Names(default=("127.0.0.1",))) as egress:
        for host in ("127.0.0.1", "localhost", "rebound.example.com"):
            assert (await egress.post(canary.url(host=host), b"{}")).status == 204
    assert canary.connections == 3


async def test_no_hostile_url_reaches_the_canary(canary: Canary) -> None:
    async with Egress(_open_ports(canary), resolver=Names(default=("127.0.0.1",))) as egress:
        for url in HOSTILE_URLS:
            hostile = url.replace("{port}", str(canary.port))
            with pytest.raises(EgressRefused):
                await egress.post(hostile, b"{}")
            with pytest.raises(EgressRefused):
                async with egress.get(hostile, max_bytes=10, deadline_s=5):
                    pytest.fail(f"{hostile!r} was opened")
    assert canary.connections == 0


@pytest.mark.parametrize("url", HOSTILE_URLS, ids=range(len(HOSTILE_URLS)))
async def test_no_hostile_url_makes_a_socket_connect(connects: list[str], url: str) -> None:
    policy = EgressPolicy(ports=DEFAULT_PORTS | {9})
    async with Egress(policy, resolver=Names(default=("127.0.0.1",))) as egress:
        with pytest.raises(EgressRefused):
            await egress.post(url.replace("{port}", "9"), b"{}")
    assert connects == []


async def test_with_the_systems_own_resolver_the_corpus_stays_out_too(canary: Canary) -> None:
    numeric = [url for url in HOSTILE_URLS if "example" not in url and "google" not in url]
    async with Egress(_open_ports(canary), resolver=SystemResolver()) as egress:
        for url in numeric:
            with pytest.raises(EgressRefused):
                await egress.post(url.replace("{port}", str(canary.port)), b"{}")
    assert canary.connections == 0


async def test_a_rebinding_name_is_asked_once_and_only_the_checked_address_is_called(
    canary: Canary, connects: list[str]
) -> None:
    names = Names(rebind_example_com=[(PUBLIC,), ("127.0.0.1",)])
    async with Egress(_open_ports(canary), resolver=names) as egress:
        url = canary.url(host="rebind.example.com")
        with pytest.raises(EgressFailed) as failed:
            await egress.post(url, b"{}")
        assert failed.value.reason is EgressFailure.CONNECT
        assert (names.asked, connects) == (["rebind.example.com"], [PUBLIC])
        with pytest.raises(EgressRefused) as refused:
            await egress.post(url, b"{}")
        assert refused.value.reason is EgressRefusal.ADDRESS
    assert connects == [PUBLIC]
    assert canary.connections == 0


@pytest.mark.parametrize(
    "answer",
    [
        (PUBLIC, "127.0.0.1"),
        ("127.0.0.1", PUBLIC),
        (PUBLIC, OTHER_PUBLIC, "::1"),
        (PUBLIC, "10.0.0.1"),
        (PUBLIC, "169.254.169.254"),
        (PUBLIC, "::ffff:127.0.0.1"),
        (OTHER_PUBLIC, "64:ff9b::7f00:1"),
        (PUBLIC, "fe80::1%2"),
        (PUBLIC, "not an address"),
    ],
)
async def test_one_bad_address_spoils_the_whole_answer(connects: list[str], answer: tuple[str, ...]) -> None:
    async with Egress(EgressPolicy(), resolver=Names(mixed_example_com=[answer])) as egress:
        with pytest.raises(EgressRefused) as refused:
            await egress.post("https://mixed.example.com/", b"{}")
    assert refused.value.reason is EgressRefusal.ADDRESS
    assert connects == []


async def test_every_public_address_of_a_name_gets_its_turn(connects: list[str]) -> None:
    answer = (OTHER_PUBLIC, PUBLIC)
    async with Egress(EgressPolicy(), resolver=Names(two_example_com=[answer])) as egress:
        with pytest.raises(EgressFailed, match="could not be reached"):
            await egress.post("https://two.example.com/", b"{}")
    assert connects == list(answer)


async def test_a_failure_to_connect_does_not_tell_the_address(connects: list[str]) -> None:
    async with Egress(EgressPolicy(), resolver=Names(a_example_com=[(PUBLIC,)])) as egress:
        with pytest.raises(EgressFailed) as failed:
            await egress.post("https://a.example.com/", b"{}")
    assert PUBLIC not in str(failed.value)


async def test_a_pooled_connection_does_not_outlive_the_address_it_was_opened_for() -> None:
    async with serving() as first, serving(host="127.0.0.2", port=first.port) as second:
        names = Names(moving_example_com=[("127.0.0.1",), ("127.0.0.1",), ("127.0.0.2",)])
        async with Egress(EgressPolicy(allow_loopback=True), resolver=names) as egress:
            for _ in range(3):
                assert (await egress.post(first.url(host="moving.example.com"), b"{}")).status == 204
        assert (first.connections, len(first.requests)) == (1, 2)
        assert (second.connections, len(second.requests)) == (1, 1)


async def test_a_pooled_connection_is_not_used_once_its_name_leads_inside() -> None:
    async with serving() as server:
        names = Names(moving_example_com=[("127.0.0.1",), ("169.254.169.254",)])
        async with Egress(EgressPolicy(allow_loopback=True), resolver=names) as egress:
            url = server.url(host="moving.example.com")
            await egress.post(url, b"{}")
            with pytest.raises(EgressRefused):
                await egress.post(url, b"{}")
        assert len(server.requests) == 1


async def test_two_names_at_one_address_do_not_share_a_connection(canary: Canary) -> None:
    async with Egress(EgressPolicy(allow_loopback=True), resolver=Names(default=("127.0.0.1",))) as egress:
        for host in ("a.example.com", "b.example.com", "a.example.com"):
            await egress.post(canary.url(host=host), b"{}")
    assert canary.connections == 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_an_answer_and_not_an_order(status: int) -> None:
    async with serving() as inside:
        for location in ("http://169.254.169.254/latest/meta-data/", inside.url()):
            answer = f"HTTP/1.1 {status} Go\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n".encode()
            async with (
                serving(answering(answer)) as outside,
                Egress(EgressPolicy(allow_loopback=True)) as egress,
            ):
                reply = await egress.post(outside.url(), b"{}")
                assert (reply.status, reply.headers["location"]) == (status, location)
        assert inside.connections == 0


async def test_proxies_of_the_environment_are_ignored(canary: Canary, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as proxy:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url("/"))
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        async with Egress(EgressPolicy(allow_loopback=True)) as egress:
            assert (await egress.post(canary.url(), b"{}")).status == 204
        assert proxy.connections == 0
    assert canary.connections == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"x-a": "one\r\nx-injected: yes"},
        {"x-a": "one\nx-injected: yes"},
        {"x-a\r\nx-injected": "yes"},
        {"x a": "space"},
        {"x-a": "nul\x00"},
        {"x-a": "é"},
        {"": "empty"},
        {"Host": "inside"},
        {"Content-Length": "5"},
        {"transfer-encoding": "chunked"},
        {"Connection": "upgrade"},
        {"Proxy-Authorization": "x"},
    ],
)
async def test_headers_cannot_break_out_or_take_over(canary: Canary, headers: dict[str, str]) -> None:
    async with Egress(EgressPolicy(allow_loopback=True)) as egress:
        with pytest.raises(EgressRefused) as refused:
            await egress.post(canary.url(), b"{}", headers)
    assert refused.value.reason is EgressRefusal.BAD_HEADER
    assert canary.connections == 0


class TestResolving:
    async def test_the_system_resolver_knows_this_machine(self) -> None:
        resolver = SystemResolver()
        try:
            assert set(await resolver.resolve("localhost", 80)) <= {"127.0.0.1", "::1"}
        finally:
            await resolver.close()

    @pytest.mark.parametrize("error", [socket.gaierror(socket.EAI_NONAME, "Name not known"), UnicodeError()])
    async def test_a_name_that_does_not_resolve_is_worth_another_try(
        self, monkeypatch: pytest.MonkeyPatch, error: Exception
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(socket, "getaddrinfo", fail)
        resolver = SystemResolver()
        try:
            with pytest.raises(EgressFailed, match=r"gone\.example") as failed:
                await resolver.resolve("gone.example", 80)
        finally:
            await resolver.close()
        assert failed.value.reason is EgressFailure.NAME

    async def test_a_scoped_address_keeps_its_scope_for_the_check_to_see(self, monkeypatch: pytest.MonkeyPatch) -> None:
        info = (socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("fe80::1", 80, 0, 2))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [info, info])
        resolver = SystemResolver()
        try:
            assert await resolver.resolve("scoped.example", 80) == ("fe80::1%2",)
        finally:
            await resolver.close()

    async def test_answers_are_kept_for_their_time_and_asked_once_for_all(self) -> None:
        now = 0.0
        names = Names(a_example=[("1.1.1.1",), ("8.8.8.8",)])
        resolver = CachingResolver(names, ttl_s=5, clock=lambda: now)
        together = await asyncio.gather(*(resolver.resolve("a.example", 80) for _ in range(10)))
        now = 4.9
        assert set(together) == {("1.1.1.1",)} == {await resolver.resolve("a.example", 80)}
        assert len(names.asked) == 1
        now = 5.0
        assert await resolver.resolve("a.example", 80) == ("8.8.8.8",)
        await resolver.close()

    async def test_one_caller_giving_up_does_not_spoil_the_lookup_of_others(self) -> None:
        release = asyncio.Event()

        class Slow(Names):
            async def resolve(self, host: str, port: int) -> tuple[str, ...]:
                await release.wait()
                return await super().resolve(host, port)

        resolver = CachingResolver(Slow(default=("1.1.1.1",)))
        impatient = asyncio.create_task(resolver.resolve("a.example", 80))
        patient = asyncio.create_task(resolver.resolve("a.example", 80))
        await asyncio.sleep(0)
        impatient.cancel()
        release.set()
        assert await patient == ("1.1.1.1",)
        with pytest.raises(asyncio.CancelledError):
            await impatient
        await resolver.close()

    async def test_failures_are_kept_too_and_raised_to_each_caller(self) -> None:
        asked = 0

        class Broken(Names):
            async def resolve(self, host: str, port: int) -> tuple[str, ...]:
                nonlocal asked
                asked += 1
                raise EgressFailed(EgressFailure.NAME, "no such name")

        resolver = CachingResolver(Broken())
        for _ in range(3):
            with pytest.raises(EgressFailed):
                await resolver.resolve("a.example", 80)
        assert asked == 1
        await resolver.close()

    async def test_closing_while_a_lookup_hangs_ends_at_once(self) -> None:
        class Hanging(Names):
            async def resolve(self, host: str, port: int) -> tuple[str, ...]:
                await asyncio.Event().wait()
                raise AssertionError

        resolver = CachingResolver(Hanging())
        waiting = asyncio.create_task(resolver.resolve("a.example", 80))
        await asyncio.sleep(0)
        await resolver.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    async def test_addresses_of_a_target_can_be_asked_for_by_others(self) -> None:
        async with Egress(EgressPolicy(), resolver=Names(s3_example_com=[(PUBLIC,), ("10.0.0.1",)])) as egress:
            target = check_url("https://s3.example.com/", EgressPolicy())
            assert await egress.addresses(target) == (PUBLIC,)
            with pytest.raises(EgressRefused):
                await egress.addresses(target)
