"""The URL reader and the policy: strict, total, and of one mind with other parsers about what it accepts."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from euterpe.egress.addresses import Reach
from euterpe.egress.errors import EgressRefusal, EgressRefused
from euterpe.egress.target import EgressPolicy, check_address, check_url, parse_url
from euterpe.model.errors import InvalidInput
from tests.webhook.hostile_urls import HOSTILE_URLS

STRICT = EgressPolicy()


@pytest.mark.parametrize(
    ("url", "host", "port", "asked", "authority"),
    [
        ("https://example.com", "example.com", 443, "/", "example.com"),
        ("http://example.com/", "example.com", 80, "/", "example.com"),
        ("HTTPS://Example.COM:8443/A?b=c", "example.com", 8443, "/A?b=c", "example.com:8443"),
        ("https://example.com?x=1", "example.com", 443, "/?x=1", "example.com"),
        ("https://a_b.example.com/%2F?q[0]=%20", "a_b.example.com", 443, "/%2F?q[0]=%20", "a_b.example.com"),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example", 443, "/", "xn--bcher-kva.example"),
        ("http://1.1.1.1:8080/x", "1.1.1.1", 8080, "/x", "1.1.1.1:8080"),
        ("http://[2606:4700:4700:0::1111]/", "2606:4700:4700::1111", 80, "/", "[2606:4700:4700::1111]"),
        ("https://example.com/a//b/../c?d?e", "example.com", 443, "/a//b/../c?d?e", "example.com"),
    ],
)
def test_an_ordinary_url_is_taken_apart_and_kept_as_written(
    url: str, host: str, port: int, asked: str, authority: str
) -> None:
    target = check_url(url, STRICT)
    assert (target.host, target.port, target.path_and_query) == (host, port, asked)
    assert target.authority == authority
    assert target.is_tls is url.lower().startswith("https")


@pytest.mark.parametrize("url", ["https://example.com/" + "a" * 2029, "https://" + "a" * 250 + ".com/"])
def test_a_url_that_is_too_long_is_refused(url: str) -> None:
    with pytest.raises(EgressRefused) as caught:
        check_url(url, STRICT)
    assert caught.value.reason is EgressRefusal.BAD_URL


@pytest.mark.parametrize("port", [1, 22, 25, 53, 79, 81, 110, 5432, 6379, 9200, 11211, 65535])
def test_ports_of_other_services_are_closed(port: int) -> None:
    with pytest.raises(EgressRefused) as caught:
        check_url(f"http://example.com:{port}/", STRICT)
    assert caught.value.reason is EgressRefusal.PORT


url_like = st.text(alphabet="htps:/@.[]%#?\\ab01x-_\t\n é．。", max_size=40).map(lambda tail: f"http://{tail}")
any_text = st.text(max_size=60) | url_like | st.sampled_from(HOSTILE_URLS)


@given(any_text)
@example("http://a:1:2")
def test_any_text_is_either_a_target_or_refused(text: str) -> None:
    with suppress(EgressRefused):
        check_url(text, EgressPolicy(allow_private=True, allow_loopback=True))


labels = st.from_regex(r"[a-zA-Z0-9_][a-zA-Z0-9_-]{0,10}", fullmatch=True)
hosts = st.lists(labels, min_size=1, max_size=4).map(".".join) | st.ip_addresses().map(
    lambda address: f"[{address}]" if address.version == 6 else str(address)
)
tails = st.text(alphabet="/?&=%20abc.@:[]~", max_size=20)


@given(hosts, st.none() | st.integers(1, 65535), st.sampled_from(["http", "https"]), tails.map(lambda t: f"/{t}"))
def test_other_parsers_see_the_same_host_and_port_in_what_we_accept(
    host: str, port: int | None, scheme: str, tail: str
) -> None:
    url = f"{scheme}://{host}{'' if port is None else f':{port}'}{tail}"
    try:
        target = parse_url(url)
    except EgressRefused:
        return
    standard, yarl = urlsplit(url), URL(url, encoded=True)
    seen = {standard.hostname, (yarl.raw_host or "").lower()}
    if ":" not in target.host:
        assert seen == {target.host}
    assert standard.port == port
    assert yarl.port == target.port
    assert parse_url(f"{scheme}://{target.authority}{target.path_and_query}") == target


class TestPolicy:
    @pytest.mark.parametrize(
        ("policy", "opened"),
        [
            (EgressPolicy(), {Reach.PUBLIC}),
            (EgressPolicy(allow_loopback=True), {Reach.PUBLIC, Reach.LOOPBACK}),
            (EgressPolicy(allow_private=True), {Reach.PUBLIC, Reach.PRIVATE}),
            (
                EgressPolicy(allow_hosts=frozenset({"minio.internal"})),
                {Reach.PUBLIC, Reach.LOOPBACK, Reach.PRIVATE, Reach.SHARED},
            ),
        ],
        ids=["strict", "loopback", "private", "named host"],
    )
    def test_each_switch_opens_its_range_and_nothing_else(self, policy: EgressPolicy, opened: set[Reach]) -> None:
        assert {reach for reach in Reach if policy.allows_reach("minio.internal", 443, reach)} == opened

    def test_a_named_host_opens_nothing_for_its_neighbours(self) -> None:
        policy = EgressPolicy(allow_hosts=frozenset({"minio.internal"}))
        for other in ("a.minio.internal", "minio.internal.example.com", "xminio.internal"):
            assert not policy.allows_reach(other, 443, Reach.PRIVATE)

    def test_a_host_named_with_a_port_is_open_on_that_port_only(self) -> None:
        policy = EgressPolicy(allow_hosts=frozenset({"minio:9000"}))
        assert check_url("http://minio:9000/bucket", policy).port == 9000
        for url in ("http://minio:9001/", "http://minio/", "http://other:9000/"):
            with pytest.raises(EgressRefused):
                check_url(url, policy)

    def test_metadata_stays_closed_even_to_named_hosts(self) -> None:
        policy = EgressPolicy(True, True, frozenset({"169.254.169.254", "meta.example.com"}))
        with pytest.raises(EgressRefused):
            check_url("http://169.254.169.254/latest", policy)
        target = check_url("http://meta.example.com/latest", policy)
        with pytest.raises(EgressRefused):
            check_address(target, "169.254.169.254", policy)

    def test_loopback_in_development_takes_any_unprivileged_port_but_only_there(self) -> None:
        policy = EgressPolicy(allow_loopback=True)
        check_url("http://127.0.0.1:9000/", policy)
        check_url("http://localhost:45678/", policy)
        target = check_url("http://example.com:9000/", policy)  # may still turn out to be loopback
        check_address(target, "127.0.0.1", policy)
        with pytest.raises(EgressRefused) as caught:
            check_address(target, "1.1.1.1", policy)
        assert caught.value.reason is EgressRefusal.PORT
        for url in ("http://127.0.0.1:22/", "http://1.1.1.1:9000/"):
            with pytest.raises(EgressRefused):
                check_url(url, policy)

    def test_named_hosts_may_be_addresses_and_are_compared_in_canonical_form(self) -> None:
        policy = EgressPolicy(allow_hosts=frozenset({"[FD12:0::1]:9000", "10.1.2.3"}))
        check_url("http://[fd12::1]:9000/", policy)
        check_url("https://10.1.2.3/", policy)
        with pytest.raises(EgressRefused):
            check_url("https://10.1.2.4/", policy)

    @pytest.mark.parametrize("entry", ["", "http://minio", "*.internal", "minio:", "minio:0", "a b", "127.1"])
    def test_a_wrong_entry_is_named(self, entry: str) -> None:
        with pytest.raises(InvalidInput, match=r"egress\.allow_hosts"):
            EgressPolicy(allow_hosts=frozenset({entry}))

    def test_a_wrong_port_is_named(self) -> None:
        with pytest.raises(InvalidInput, match=r"egress\.ports"):
            EgressPolicy(ports=frozenset({0}))


def test_a_refusal_names_the_host_and_never_the_address_behind_it() -> None:
    target = check_url("https://inside.example.com/", STRICT)
    with pytest.raises(EgressRefused) as caught:
        check_address(target, "10.9.8.7", STRICT)
    assert "inside.example.com" in str(caught.value)
    assert "10.9.8.7" not in str(caught.value)
