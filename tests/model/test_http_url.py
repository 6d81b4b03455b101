"""The one parser of URLs that requesters write: what submit takes, an event and a delivery can read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.egress.errors import EgressRefused
from euterpe.egress.target import parse_url
from euterpe.model.errors import InvalidInput
from euterpe.model.reading.readable import origin_of
from euterpe.model.submitting.submission import Submission, check
from euterpe.model.urls.http_url import BadUrl, parse_http_url

MALFORMED = [
    "http://[", "http://]", "http://[::1", "http://[zz]/", "http://[1.2.3.4]/", "https://[::1%25eth0]/", "http://",
    "http:///path", "http://a\u2100b.example/", "http://\uff21.example/", "http://\u212a.example/", "http://ex\u00e4mple/",
    "http://example.org:0/", "http://example.org:65536/", "http://example.org:x/", "http://example.org:/",
    "http://user:secret@example.org/", "http://exa mple.org/", "http://example.org/\t", "http://example.org/\n",
    "http://example.org/\x7f", "http://example.org\\@evil.example/", "http://example..org/", "http://example.org./",
    "http://-example.org/", "http://xn--\u00e4/", "http://2130706433/", "http://0x7f.1/", "http://example.org/#f",
    "http://example.org/%zz", "http://" + "a" * 64 + ".example/", "http://" + "a." * 130 + "example/",
]  # fmt: skip


@pytest.mark.parametrize("url", MALFORMED, ids=ascii)
def test_a_malformed_callback_is_refused_at_submit_by_the_name_of_its_field(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check(Submission(type="t", callback_url=url))
    assert refused.value.field == "callback_url"


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org",
        "HTTP://EXAMPLE.org:8080/a?b=c",
        "http://127.0.0.1:9/",
        "http://[::1]:8080/x",
        "http://localhost",
    ],
)
def test_an_ordinary_callback_is_accepted(url: str) -> None:
    check(Submission(type="t", callback_url=url))
    assert origin_of(url).startswith(("http://", "https://"))


@given(st.text(max_size=60) | st.text(max_size=40).map(lambda text: f"https://{text}"))
def test_submit_and_delivery_agree_on_every_text(url: str) -> None:
    try:
        check(Submission(type="t", callback_url=url))
    except InvalidInput:
        return
    assert parse_url(url).origin == origin_of(url)


def test_an_origin_is_told_for_any_text_at_all() -> None:
    assert [origin_of(url) for url in MALFORMED] == ["invalid:"] * len(MALFORMED)
    with pytest.raises(BadUrl):
        parse_http_url("http://[")
    with pytest.raises(EgressRefused):
        parse_url("http://[")
