"""Reads the source, destination and credentials of a request: every problem is found, each with a JSON pointer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, TypeAlias, TypeVar

from msgspec import Meta, Struct, field

from euterpe.egress.client import check_headers
from euterpe.egress.errors import EgressRefused
from euterpe.egress.target import EgressPolicy, check_url
from euterpe.model.urls.http_url import BadUrl, parse_http_url
from euterpe.transcode.schema.locations import (
    STAGING,
    AccessKeys,
    CredentialSet,
    DestinationLocation,
    LocalDestination,
    LocalSource,
    Locations,
    PutUrlDestination,
    S3Destination,
    S3Source,
    SignedUrl,
    SignedUrlSource,
    SourceLocation,
    without_query,
)
from euterpe.transcode.schema.reading import FieldProblem, escaped, read

T = TypeVar("T", bound=Struct)

MAX_QUERY: Final = 8192
MAX_HEADERS: Final = 16
MIN_TTL_S: Final = 60
"""Credentials that are over sooner are refused: they would not last for one part of an upload."""

_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]", re.ASCII)
_REGION: Final = re.compile(r"[a-z0-9-]{1,64}", re.ASCII)
_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_ETAG: Final = re.compile(r'[!#-~]{1,256}|"[!#-~]{0,256}"', re.ASCII)
_QUERY: Final = re.compile(r"(?:[!$&-;=?-Z_a-z~\[\]]|%[0-9A-Fa-f]{2})*", re.ASCII)
_MAX_KEY_BYTES: Final = 1024
_SECRET: Final = re.compile(r"[!-~]{1,8192}", re.ASCII)

Text: TypeAlias = Annotated[str, Meta(max_length=4096)]


class _Keys(Struct, kw_only=True):
    access_key_id: Text
    secret_access_key: Text
    session_token: Annotated[str, Meta(max_length=8192)] | None = None
    expires_at: str | None = None

    def __repr__(self) -> str:
        return "_Keys(***)"


class _Url(Struct, kw_only=True, tag_field="type", tag="signed_url"):
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    expires_at: str | None = None
    etag: str | None = None
    sha256: str | None = None

    def __repr__(self) -> str:
        return "_Url(***)"


_SOURCES: Final[Mapping[str, type[S3Source | _Url | LocalSource]]] = {
    "s3": S3Source,
    "signed_url": _Url,
    "local": LocalSource,
}
_DESTINATIONS: Final[Mapping[str, type[S3Destination | LocalDestination]]] = {
    "s3": S3Destination,
    "local": LocalDestination,
}


@dataclass(frozen=True, slots=True)
class Read:
    """What a request says of places. Good for use only where no problem was found."""

    locations: Locations | None
    credentials: CredentialSet
    problems: tuple[FieldProblem, ...]


def read_locations(body: Mapping[str, object], policy: EgressPolicy, now_s: float) -> Read:
    """`source`, `destination`, `credentials`, and the `put_url` of each of the `outputs`; nothing else is looked at."""
    found: list[FieldProblem] = []
    source, source_url = _read_source(body.get("source"), found, policy, now_s)
    outputs = body.get("outputs")
    put_urls = _read_put_urls(outputs if isinstance(outputs, list) else [], found, policy, now_s)
    destination: DestinationLocation | None
    if put_urls or (body.get("destination") is None and isinstance(outputs, list)):
        destination = _of_put_urls(body.get("destination"), put_urls, outputs, found)
    else:
        destination = _read_destination(body.get("destination"), found, policy)
    keys = _read_credentials(body.get("credentials"), source, destination, found, now_s)
    secrets = CredentialSet(
        source=keys.get("source"), destination=keys.get("destination"), source_url=source_url, put_urls=put_urls
    )
    if source is None or destination is None or found:
        return Read(None, secrets, tuple(found))
    return Read(Locations(source=source, destination=destination), secrets, ())


def _read_source(
    raw: object, found: list[FieldProblem], policy: EgressPolicy, now_s: float
) -> tuple[SourceLocation | None, SignedUrl | None]:
    kind = _kind(raw, _SOURCES, "/source", found)
    if kind is None:
        return None, None
    source = read(raw, _SOURCES[kind], found, "/source")
    if isinstance(source, _Url):
        signed = _signed(source, "/source", found, policy, now_s)
        location = SignedUrlSource(url=without_query(source.url), etag=source.etag, sha256=source.sha256)
        _check_pins(location, found)
        return location, signed
    if isinstance(source, S3Source):
        _check_s3(source, "/source", found, policy)
        _check_name(source.key, "/source/key", found, what="key")
        _check_pins(source, found)
        return source, None
    if isinstance(source, LocalSource):
        _check_name(source.path, "/source/path", found, what="path")
        _check_pins(source, found)
        return source, None
    return None, None


def _read_destination(raw: object, found: list[FieldProblem], policy: EgressPolicy) -> DestinationLocation | None:
    kind = _kind(raw, _DESTINATIONS, "/destination", found)
    if kind is None:
        return None
    destination = read(raw, _DESTINATIONS[kind], found, "/destination")
    if isinstance(destination, S3Destination):
        _check_s3(destination, "/destination", found, policy)
    if isinstance(destination, S3Destination | LocalDestination) and destination.prefix:
        _check_name(destination.prefix.rstrip("/") or "/", "/destination/prefix", found, what="prefix")
        if not destination.prefix.endswith("/"):
            found.append(FieldProblem("/destination/prefix", "invalid", "a prefix ends with a slash"))
    return destination if isinstance(destination, S3Destination | LocalDestination) else None


def _read_put_urls(
    outputs: Sequence[object], found: list[FieldProblem], policy: EgressPolicy, now_s: float
) -> dict[str, SignedUrl]:
    urls: dict[str, SignedUrl] = {}
    for index, output in enumerate(outputs):
        raw = output.get("put_url") if isinstance(output, dict) else None
        if not isinstance(output, dict) or raw is None:
            continue
        pointer = f"/outputs/{index}/put_url"
        if output.get("kind") == "hls":
            found.append(
                FieldProblem(pointer, "unsupported", "HLS has many files: it needs a destination with a prefix")
            )
            continue
        parsed = _Url(url=raw) if isinstance(raw, str) else read(raw, _Url, found, pointer)
        if parsed is not None:
            signed = _signed(parsed, pointer, found, policy, now_s, at_url="" if isinstance(raw, str) else "/url")
            urls[str(output.get("id"))] = signed
    return urls


def _of_put_urls(
    destination: object, urls: Mapping[str, SignedUrl], outputs: object, found: list[FieldProblem]
) -> PutUrlDestination | None:
    if destination is not None:
        found.append(
            FieldProblem("/destination", "conflict", "outputs have a put_url each, or all go to one destination")
        )
    if not urls:
        found.append(FieldProblem("/destination", "missing", "a destination is required, or a put_url for each output"))
        return None
    for index, output in enumerate(outputs if isinstance(outputs, list) else []):
        if isinstance(output, dict) and output.get("put_url") is None:
            found.append(FieldProblem(f"/outputs/{index}/put_url", "missing", "the other outputs have one"))
    return PutUrlDestination(urls={name: signed.place for name, signed in urls.items()})


def _read_credentials(
    raw: object,
    source: SourceLocation | None,
    destination: DestinationLocation | None,
    found: list[FieldProblem],
    now_s: float,
) -> dict[str, AccessKeys]:
    if raw is not None and not isinstance(raw, dict):
        found.append(FieldProblem("/credentials", "invalid", "an object is expected"))
        return {}
    fields: dict[str, object] = raw or {}
    needs = {"source": isinstance(source, S3Source), "destination": isinstance(destination, S3Destination)}
    keys: dict[str, AccessKeys] = {}
    for name in fields:
        if name not in needs:
            found.append(FieldProblem(f"/credentials/{escaped(name)}", "unknown_field", "there is no such option"))
    for name, needed in needs.items():
        pointer = f"/credentials/{name}"
        given = fields.get(name)
        if given is None or given == {}:
            if needed:
                found.append(FieldProblem(pointer, "missing", f"a {name} of type s3 needs access keys"))
        elif not needed:
            found.append(FieldProblem(pointer, "unexpected", f"this {name} takes no access keys"))
        elif (one := _access_keys(given, pointer, found, now_s)) is not None:
            keys[name] = one
    return keys


def _access_keys(raw: object, pointer: str, found: list[FieldProblem], now_s: float) -> AccessKeys | None:
    before = len(found)
    keys = read(raw, _Keys, found, pointer)
    if keys is None or len(found) > before:
        return None
    for name in ("access_key_id", "secret_access_key", "session_token"):
        value = getattr(keys, name)
        if value and not _SECRET.fullmatch(value):
            found.append(FieldProblem(f"{pointer}/{name}", "invalid", "printable ASCII without spaces is expected"))
        elif not value and name != "session_token":
            found.append(FieldProblem(f"{pointer}/{name}", "missing", "it is empty"))
    return AccessKeys(
        access_key_id=keys.access_key_id,
        secret_access_key=keys.secret_access_key,
        session_token=keys.session_token or None,
        expires_at=_expiry(keys.expires_at, f"{pointer}/expires_at", found, now_s),
    )


def _expiry(text: str | None, pointer: str, found: list[FieldProblem], now_s: float) -> int | None:
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        found.append(FieldProblem(pointer, "invalid", "an RFC 3339 time with its offset is expected"))
        return None
    if at.timestamp() < now_s + MIN_TTL_S:
        found.append(FieldProblem(pointer, "expires_too_soon", f"at least {MIN_TTL_S} seconds from now are needed"))
    return int(at.timestamp())


def _signed(
    signed: _Url, pointer: str, found: list[FieldProblem], policy: EgressPolicy, now_s: float, at_url: str = "/url"
) -> SignedUrl:
    base, mark, query = signed.url.partition("?")
    _check_endpoint(base, f"{pointer}{at_url}", found, policy)
    if mark and (len(query) > MAX_QUERY or not _QUERY.fullmatch(query)):
        found.append(
            FieldProblem(
                f"{pointer}{at_url}", "invalid", f"its query must be percent-encoded, up to {MAX_QUERY} characters"
            )
        )
    if len(signed.headers) > MAX_HEADERS:
        found.append(FieldProblem(f"{pointer}/headers", "too_many", f"at most {MAX_HEADERS} headers"))
    for name, value in signed.headers.items():
        try:
            check_headers({name: value})
        except EgressRefused:
            found.append(FieldProblem(f"{pointer}/headers/{escaped(name)}", "invalid", "this header cannot be set"))
    return SignedUrl(
        url=signed.url,
        headers=signed.headers,
        expires_at=_expiry(signed.expires_at, f"{pointer}/expires_at", found, now_s),
    )


def _check_s3(
    location: S3Source | S3Destination, pointer: str, found: list[FieldProblem], policy: EgressPolicy
) -> None:
    if not _BUCKET.fullmatch(location.bucket) or ".." in location.bucket:
        found.append(
            FieldProblem(f"{pointer}/bucket", "invalid", "a bucket has 3 to 63 letters, digits, dots or dashes")
        )
    if not _REGION.fullmatch(location.region):
        found.append(FieldProblem(f"{pointer}/region", "invalid", "a region has lower-case letters, digits and dashes"))
    if location.endpoint is None:
        if location.region == "auto":
            found.append(
                FieldProblem(f"{pointer}/endpoint", "missing", "give an endpoint, or the AWS region of the bucket")
            )
        return
    if location.endpoint.count("/") > 2 or "?" in location.endpoint:
        found.append(FieldProblem(f"{pointer}/endpoint", "invalid", "an endpoint is https://host or https://host:port"))
    else:
        _check_endpoint(location.endpoint, f"{pointer}/endpoint", found, policy)


def _check_endpoint(url: str, pointer: str, found: list[FieldProblem], policy: EgressPolicy) -> None:
    try:
        target = parse_http_url(url)
        check_url(url, policy)
    except BadUrl as bad:
        found.append(FieldProblem(pointer, "invalid", f"the URL {bad}"))
    except EgressRefused as refusal:
        found.append(FieldProblem(pointer, str(refusal.reason), str(refusal)))
    else:
        inside = policy.allow_loopback or policy.allow_private or policy.names(target.host, target.port)
        if not target.is_tls and not inside:
            found.append(FieldProblem(pointer, "insecure", "only https is taken: credentials travel with the request"))


def place_problems(source: SourceLocation, destination: DestinationLocation) -> list[FieldProblem]:
    """Problems with the names in places that came another way than by POST /transcode."""
    found: list[FieldProblem] = []
    if isinstance(source, S3Source | LocalSource):
        key = source.key if isinstance(source, S3Source) else source.path
        _check_name(key, "/source", found, what="name")
    if isinstance(destination, S3Destination | LocalDestination) and destination.prefix:
        _check_name(destination.prefix.rstrip("/") or "/", "/destination/prefix", found, what="prefix")
    return found


def _check_name(name: str, pointer: str, found: list[FieldProblem], *, what: str) -> None:
    """Of a key, a path or a prefix. Dots are refused everywhere: what lies between us and a store may resolve them."""
    parts = name.split("/")
    if not name or len(name.encode(errors="replace")) > _MAX_KEY_BYTES:
        found.append(FieldProblem(pointer, "invalid", f"a {what} has 1 to {_MAX_KEY_BYTES} bytes"))
    elif any(part in (".", "..", "") for part in parts):
        found.append(FieldProblem(pointer, "invalid", f"a {what} has no empty, . or .. part and begins with no slash"))
    elif any(part.lower() == STAGING for part in parts):
        found.append(FieldProblem(pointer, "invalid", f"a {what} has no part {STAGING}: it is Euterpe's own folder"))
    elif any(ord(letter) < 32 or ord(letter) == 127 or 0xD800 <= ord(letter) < 0xE000 for letter in name):
        found.append(FieldProblem(pointer, "invalid", f"a {what} has no control characters"))


def _check_pins(source: S3Source | SignedUrlSource | LocalSource, found: list[FieldProblem]) -> None:
    if source.sha256 is not None and not _SHA256.fullmatch(source.sha256):
        found.append(FieldProblem("/source/sha256", "invalid", "64 lower-case hexadecimal digits are expected"))
    etag = None if isinstance(source, LocalSource) else source.etag
    if etag is not None and not _ETAG.fullmatch(etag):
        found.append(FieldProblem("/source/etag", "invalid", "a strong entity tag is expected"))


def _kind(raw: object, kinds: Mapping[str, type[Struct]], pointer: str, found: list[FieldProblem]) -> str | None:
    if raw is None:
        found.append(FieldProblem(pointer, "missing", "this option is required"))
        return None
    kind = raw.get("type") if isinstance(raw, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        at = f"{pointer}/type" if isinstance(raw, dict) else pointer
        found.append(FieldProblem(at, "invalid", f"the type is one of: {', '.join(kinds)}"))
        return None
    return kind
