"""Sources, destinations and credentials of a request: every problem is found, and no secret is shown."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import msgspec
import pytest

from euterpe.egress.target import EgressPolicy
from euterpe.transcode.schema.location_rules import Read, read_locations
from euterpe.transcode.schema.locations import (
    CredentialSet,
    LocalDestination,
    LocalSource,
    PutUrlDestination,
    S3Destination,
    S3Source,
    SignedUrlSource,
    canonical,
)

NOW = 1_800_000_000.0
SECRET = "canary-of-the-secret-key"
CLOSED = EgressPolicy()

KEYS = {"access_key_id": "AK", "secret_access_key": SECRET, "session_token": f"{SECRET}-token", "expires_at": ""}
S3_BODY: dict[str, Any] = {
    "source": {"type": "s3", "endpoint": "https://acc.r2.example.com", "bucket": "bkt", "key": "in/a.flac"},
    "destination": {"type": "s3", "bucket": "bkt", "region": "eu-west-1", "prefix": "out/42/"},
    "credentials": {"source": dict(KEYS), "destination": dict(KEYS)},
    "outputs": [{"id": "mp3", "kind": "audio"}],
}
URL_BODY: dict[str, Any] = {
    "source": {
        "type": "signed_url",
        "url": f"https://example.com/a?X-Amz-Signature={SECRET}",
        "headers": {"X-A": SECRET},
    },
    "outputs": [
        {"id": "mp3", "kind": "audio", "put_url": f"https://example.com/p?sig={SECRET}"},
        {"id": "png", "kind": "waveform", "put_url": {"url": f"https://other.example.com/q?sig={SECRET}"}},
    ],
}


def read(body: dict[str, Any], policy: EgressPolicy = CLOSED) -> Read:
    return read_locations(body, policy, NOW)


def changed(body: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    made = copy.deepcopy(body)
    *folders, last = path.split("/")
    place: Any = made
    for name in folders:
        place = place[int(name)] if isinstance(place, list) else place[name]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return made


def pointers(body: dict[str, Any], policy: EgressPolicy = CLOSED) -> list[str]:
    found = read(body, policy)
    assert found.locations is None or not found.problems
    return [problem.pointer for problem in found.problems]


def test_s3_on_both_sides() -> None:
    found = read(S3_BODY)
    assert found.problems == ()
    assert found.locations is not None
    assert isinstance(found.locations.source, S3Source)
    assert isinstance(found.locations.destination, S3Destination)
    assert found.credentials.source is not None
    assert found.credentials.source.secret_access_key == SECRET
    assert canonical(found.locations.destination)["endpoint"] == "https://s3.eu-west-1.amazonaws.com"


def test_signed_urls_on_both_sides() -> None:
    found = read(URL_BODY)
    assert found.problems == ()
    assert found.locations is not None
    assert found.locations.source == SignedUrlSource(url="https://example.com/a")
    urls = {"mp3": "https://example.com/p", "png": "https://other.example.com/q"}
    assert found.locations.destination == PutUrlDestination(urls=urls)
    assert found.credentials.put_urls["mp3"].url.endswith(SECRET)
    assert found.credentials.source_url is not None
    assert found.credentials.source_url.headers == {"X-A": SECRET}


def test_files_of_this_machine() -> None:
    found = read({"source": {"type": "local", "path": "in/a"}, "destination": {"type": "local"}, "outputs": []})
    assert found.problems == ()
    assert found.locations is not None
    assert (found.locations.source, found.locations.destination) == (LocalSource(path="in/a"), LocalDestination())


@pytest.mark.parametrize("body", [S3_BODY, URL_BODY], ids=["s3", "urls"])
def test_no_secret_is_in_a_location_a_canonical_form_or_a_representation(body: dict[str, Any]) -> None:
    found = read(body)
    assert found.locations is not None
    shown = [
        repr(found),
        repr(found.credentials),
        repr(found.credentials.source),
        repr(found.credentials.source_url),
        msgspec.json.encode(found.locations).decode(),
        repr(canonical(found.locations.source)),
        repr(canonical(found.locations.destination)),
    ]
    assert not [text for text in shown if SECRET in text]
    assert SECRET in msgspec.json.encode(found.credentials).decode()
    assert msgspec.json.decode(msgspec.json.encode(found.credentials), type=CredentialSet) == found.credentials
    assert pickle.dumps(found.locations)


def test_the_same_place_hashes_the_same_whatever_opens_it() -> None:
    other = changed(
        changed(S3_BODY, "credentials/source/secret_access_key", "x"), "credentials/source/expires_at", None
    )
    assert _canonical(other) == _canonical(S3_BODY)
    signed = changed(URL_BODY, "source/url", "https://example.com/a?X-Amz-Signature=another")
    assert _canonical(signed) == _canonical(URL_BODY)
    assert _canonical(changed(S3_BODY, "source/key", "in/b.flac")) != _canonical(S3_BODY)
    assert _canonical(changed(URL_BODY, "source/url", "https://example.com/b")) != _canonical(URL_BODY)


def _canonical(body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    found = read(body).locations
    assert found is not None
    return canonical(found.source), canonical(found.destination)


@pytest.mark.parametrize(
    ("path", "value", "pointer"),
    [
        ("source", ..., "/source"),
        ("source", "x", "/source"),
        ("source/type", "ftp", "/source/type"),
        ("source/typo", 1, "/source/typo"),
        ("source/bucket", "a", "/source/bucket"),
        ("source/bucket", "a..b", "/source/bucket"),
        ("source/bucket", ..., "/source/bucket"),
        ("source/key", "", "/source/key"),
        ("source/key", "a/../b", "/source/key"),
        ("source/key", "/a", "/source/key"),
        ("source/key", "a\x00b", "/source/key"),
        ("source/key", "a" * 1025, "/source/key"),
        ("source/key", 7, "/source/key"),
        ("source/endpoint", ..., "/source/endpoint"),
        ("source/endpoint", "http://acc.r2.example.com", "/source/endpoint"),
        ("source/endpoint", "https://10.0.0.1", "/source/endpoint"),
        ("source/endpoint", "https://localhost", "/source/endpoint"),
        ("source/endpoint", "https://169.254.169.254", "/source/endpoint"),
        ("source/endpoint", "https://a.example.com/path", "/source/endpoint"),
        ("source/endpoint", "https://u:p@a.example.com", "/source/endpoint"),
        ("source/endpoint", "gopher://a.example.com", "/source/endpoint"),
        ("source/region", "EU WEST", "/source/region"),
        ("source/sha256", "abc", "/source/sha256"),
        ("source/etag", "W/\"weak\"", "/source/etag"),
        ("destination", ..., "/destination"),
        ("destination/prefix", "out", "/destination/prefix"),
        ("destination/prefix", "../out/", "/destination/prefix"),
        ("credentials", ..., "/credentials/source"),
        ("credentials", [], "/credentials"),
        ("credentials/third", {}, "/credentials/third"),
        ("credentials/source", {}, "/credentials/source"),
        ("credentials/source/secret_access_key", "", "/credentials/source/secret_access_key"),
        ("credentials/source/secret_access_key", "a b", "/credentials/source/secret_access_key"),
        ("credentials/source/session_token", "a\r\nx: y", "/credentials/source/session_token"),
        ("credentials/source/expires_at", "soon", "/credentials/source/expires_at"),
        ("credentials/source/expires_at", "2027-01-15T08:00:30Z", "/credentials/source/expires_at"),
        ("credentials/source/expires_at", "2027-01-15T08:00:00", "/credentials/source/expires_at"),
        ("outputs/0/put_url", "https://example.com/x", "/destination"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_pointed_at(path: str, value: object, pointer: str) -> None:
    assert pointer in pointers(changed(S3_BODY, path, value))


@pytest.mark.parametrize(
    ("path", "value", "pointer"),
    [
        ("source/url", "https://example.com/a?x=ä", "/source/url"),
        ("source/url", "https://127.0.0.1/a?x", "/source/url"),
        ("source/url", f"https://example.com/a?{'x' * 9000}", "/source/url"),
        ("source/headers", {"Host": "evil"}, "/source/headers/Host"),
        ("source/headers", {"X": "a\r\nY: b"}, "/source/headers/X"),
        ("outputs/0/put_url", "http://example.com/x", "/outputs/0/put_url"),
        ("outputs/0/put_url", None, "/outputs/0/put_url"),
        ("outputs/0/kind", "hls", "/outputs/0/put_url"),
        ("outputs/1/put_url", {"url": "https://[::1]/"}, "/outputs/1/put_url/url"),
    ],
)
def test_what_is_wrong_with_a_signed_url_is_pointed_at(path: str, value: object, pointer: str) -> None:
    assert pointer in pointers(changed(URL_BODY, path, value))


def test_all_problems_are_found_at_once_and_none_repeats_a_secret() -> None:
    body = changed(S3_BODY, "source/bucket", "a")
    body = changed(body, "source/key", "..")
    body = changed(body, "destination/prefix", "x")
    body = changed(body, "credentials/source/secret_access_key", f"{SECRET} with a space")
    body = changed(body, "credentials/destination/expires_at", SECRET)
    found = read(body)
    assert len(found.problems) == 5
    assert SECRET not in repr(found)


def test_loopback_is_open_where_the_operator_opened_it() -> None:
    body = changed(S3_BODY, "source/endpoint", "http://127.0.0.1:9000")
    assert pointers(body) == ["/source/endpoint"]
    assert pointers(body, EgressPolicy(allow_loopback=True)) == []
