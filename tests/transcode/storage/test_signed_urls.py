"""Signed URLs: read by range, written whole, renewed by new URLs, and never shown."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from euterpe.model.errors import StaleLease, Unsupported
from euterpe.model.failures.failure import Category
from euterpe.transcode.schema.locations import PutUrlDestination, SignedUrl, SignedUrlSource, without_query
from euterpe.transcode.storage.errors import StorageError
from euterpe.transcode.storage.s3.objects import connecting
from euterpe.transcode.storage.signed_url import PutUrlWriter, SignedUrlReader
from tests.transcode.storage.conftest import LOOPBACK, S3Place
from tests.transcode.storage.gate import Fault
from tests.transcode.storage.parts import MIB, QUICK, Claim, JobCredentials, random_file, sha256_of


def presigned(place: S3Place, method: str, key: str, expires_s: int = 600) -> str:
    request = AWSRequest(method, f"{place.gate.url}/{place.bucket}/{key}")
    keys = Credentials(place.keys.access_key_id, place.keys.secret_access_key)
    S3SigV4QueryAuth(keys, "s3", "us-east-1", expires=expires_s).add_auth(request)
    return str(request.url)


def reader_of(url: str, credentials: JobCredentials, sha256: str | None = None) -> SignedUrlReader:
    location = SignedUrlSource(url=without_query(url), sha256=sha256)
    return SignedUrlReader(location, credentials, connecting(LOOPBACK), QUICK)


def writer_of(urls: dict[str, str], credentials: JobCredentials) -> PutUrlWriter:
    location = PutUrlDestination(urls={name: without_query(url) for name, url in urls.items()})
    return PutUrlWriter(location, credentials, connecting(LOOPBACK), QUICK)


async def test_a_source_by_signed_url_arrives_whole_over_a_broken_line(place: S3Place, tmp_path: Path) -> None:
    assert place.folder is not None
    expected = random_file(place.folder / "a", 5 * MIB)
    url = presigned(place, "GET", "a")
    kept: list[int] = []
    place.gate.faults = [Fault(lambda seen: "range" not in seen.headers, cut_answer_after=2 * MIB, kept=kept)]
    reader = reader_of(url, JobCredentials(urls={None: SignedUrl(url=url)}), expected)
    assert (await reader.stat()).size == 5 * MIB
    assert (await reader.fetch(tmp_path / "got", max_bytes=5 * MIB, progress=kept.append)).sha256 == expected
    await reader.close()
    assert place.gate.seen[-1].headers["range"] in {f"bytes={size}-" for size in kept}


async def test_a_url_that_ran_out_is_renewed(place: S3Place, tmp_path: Path) -> None:
    """rclone says 400 to a signed URL that is over."""
    assert place.folder is not None
    expected = random_file(place.folder / "a", 100)
    old, new = presigned(place, "GET", "a", expires_s=-60), presigned(place, "GET", "a")
    credentials = JobCredentials(urls={None: SignedUrl(url=old)}, fresh_urls=[{None: SignedUrl(url=new)}])
    reader = reader_of(old, credentials)
    assert (await reader.fetch(tmp_path / "got", max_bytes=100)).sha256 == expected
    await reader.close()
    assert len(credentials.renewals) == 1


async def test_the_headers_of_a_signed_url_are_sent_with_it(place: S3Place, tmp_path: Path) -> None:
    assert place.folder is not None
    random_file(place.folder / "a", 100)
    url = presigned(place, "GET", "a")
    signed = SignedUrl(url=url, headers={"x-customer": "vesta"})
    reader = reader_of(url, JobCredentials(urls={None: signed}))
    await reader.fetch(tmp_path / "got", max_bytes=100)
    await reader.close()
    assert place.gate.seen[0].headers["x-customer"] == "vesta"


async def test_an_output_is_put_to_its_own_url(place: S3Place, tmp_path: Path) -> None:
    expected = random_file(tmp_path / "mp3", 3 * MIB)
    url = presigned(place, "PUT", "out/a.mp3")
    credentials = JobCredentials(urls={"mp3": SignedUrl(url=url)})
    claim, writer = Claim(), writer_of({"mp3": url}, credentials)
    place.gate.faults = [Fault(lambda seen: True, status=503), Fault(lambda seen: True, cut_upload_after=MIB)]
    stored = await writer.put(tmp_path / "mp3", "mp3", content_type="audio/mpeg", fence=claim.fence)
    await writer.close()
    assert (stored.sha256, claim.checks) == (expected, 1)
    assert stored.key == without_query(url)
    assert place.folder is not None
    assert sha256_of(place.folder / "out/a.mp3") == expected


async def test_a_stale_claim_puts_nothing(place: S3Place, tmp_path: Path) -> None:
    random_file(tmp_path / "mp3", 100)
    url = presigned(place, "PUT", "out/a.mp3")
    writer = writer_of({"mp3": url}, JobCredentials(urls={"mp3": SignedUrl(url=url)}))
    with pytest.raises(StaleLease):
        await writer.put(tmp_path / "mp3", "mp3", content_type="a/b", fence=Claim(is_current=False).fence)
    with pytest.raises(Unsupported):
        await writer.delete("mp3")
    await writer.close()
    assert place.gate.seen == []


async def test_no_error_shows_the_query_of_a_signed_url(place: S3Place, tmp_path: Path) -> None:
    url = presigned(place, "GET", "nowhere")
    for faults in (
        [],
        [Fault(lambda seen: True, times=9, status=503)],
        [Fault(lambda seen: True, times=9, cut_upload_after=0)],
        [Fault(lambda seen: True, times=9, status=302, headers={"location": url})],
    ):
        place.gate.faults = faults
        reader = reader_of(url, JobCredentials(urls={None: SignedUrl(url=url)}))
        with pytest.raises(StorageError) as caught:
            await reader.fetch(tmp_path / "got", max_bytes=100)
        await reader.close()
        shown = repr(caught.value) + str(caught.value) + repr(caught.value.__cause__)
        assert urlsplit(url).query[:20] not in shown
        assert "Signature" not in shown


async def test_an_address_that_the_egress_policy_closes_is_not_called(tmp_path: Path) -> None:
    for url in ("http://169.254.169.254/latest", "http://10.0.0.1/a"):
        with pytest.raises(StorageError) as caught:
            reader_of(url, JobCredentials(urls={None: SignedUrl(url=url)}))
        assert (caught.value.code, caught.value.category) == ("storage.forbidden_address", Category.PERMANENT)
