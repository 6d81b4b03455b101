"""Reading from a real S3: whole, pinned, resumed, refreshed, and every refusal typed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from euterpe.model.failures.failure import Category
from euterpe.transcode.schema.locations import AccessKeys
from euterpe.transcode.storage.errors import StorageError
from euterpe.transcode.storage.http import Timing
from euterpe.transcode.storage.renewing import SETTLING_S
from euterpe.transcode.storage.retrying import Retries
from tests.transcode.storage.conftest import S3Place
from tests.transcode.storage.gate import Fault, Seen, Token
from tests.transcode.storage.parts import MIB, JobCredentials, no_wait, random_file, sha256_of

KEY = "in/a track (1) é+.flac"


@pytest.fixture
def source(place: S3Place) -> Path:
    assert place.folder is not None
    (place.folder / "in").mkdir()
    return place.folder / KEY


def is_get(seen: Seen) -> bool:
    return seen.method == "GET"


def first_byte(seen: Seen) -> int:
    """Of the range that was asked for; 0 for the whole."""
    said = re.fullmatch(r"bytes=(\d+)-", seen.headers.get("range", "bytes=0-"))
    assert said is not None
    return int(said[1])


async def fetch_error(
    place: S3Place, tmp_path: Path, progress: Callable[[int], None] | None = None, **options: object
) -> StorageError:
    reader = place.reader(KEY, **options)  # type: ignore[arg-type]  # passed through
    with pytest.raises(StorageError) as caught:
        await reader.fetch(tmp_path / "got", max_bytes=100 * MIB, progress=progress)
    await reader.close()
    return caught.value


async def test_a_source_arrives_whole_with_its_checksum(place: S3Place, source: Path, tmp_path: Path) -> None:
    expected = random_file(source, 3 * MIB + 17)
    moved: list[int] = []
    reader = place.reader(KEY, sha256=expected)
    info = await reader.stat()
    assert info.size == 3 * MIB + 17
    fetched = await reader.fetch(tmp_path / "got", max_bytes=4 * MIB, progress=moved.append)
    await reader.close()
    assert (fetched.sha256, fetched.size, fetched.etag) == (expected, 3 * MIB + 17, info.etag)
    assert sha256_of(tmp_path / "got") == expected
    assert moved == sorted(moved)
    assert moved[-1] == 3 * MIB + 17


async def test_an_empty_source_is_an_empty_file(place: S3Place, source: Path, tmp_path: Path) -> None:
    random_file(source, 0)
    reader = place.reader(KEY)
    assert (await reader.stat()).size == 0
    assert (await reader.fetch(tmp_path / "got", max_bytes=1)).size == 0
    await reader.close()


async def test_a_broken_line_is_resumed_where_it_broke(place: S3Place, source: Path, tmp_path: Path) -> None:
    expected = random_file(source, 8 * MIB)
    kept: list[int] = []
    place.gate.faults = [Fault(is_get, times=3, cut_answer_after=2 * MIB + 5, kept=kept)]
    reader = place.reader(KEY)
    fetched = await reader.fetch(tmp_path / "got", max_bytes=8 * MIB, progress=kept.append)
    await reader.close()
    assert fetched.sha256 == expected == sha256_of(tmp_path / "got")
    assert "range" not in place.gate.seen[0].headers
    begun_at = [first_byte(seen) for seen in place.gate.seen]
    assert len(begun_at) == 4
    assert begun_at == sorted(set(begun_at)), "each begins behind the one before"
    assert set(begun_at) <= {0, *kept}, "each begins where the file ends"
    assert all(seen.headers["if-match"] == fetched.etag for seen in place.gate.seen[1:])


async def test_a_source_that_changes_on_the_way_is_no_mixture(place: S3Place, source: Path, tmp_path: Path) -> None:
    random_file(source, 8 * MIB)
    kept: list[int] = []
    cut = Fault(is_get, cut_answer_after=2 * MIB, kept=kept)
    place.gate.faults = [cut, Fault(is_get, before=lambda: replace(source))]
    error = await fetch_error(place, tmp_path, kept.append)
    assert (error.code, error.category) == ("source.changed", Category.PERMANENT)


def replace(source: Path) -> None:
    random_file(source, 8 * MIB)


async def test_another_version_than_the_pinned_one_is_refused(place: S3Place, source: Path, tmp_path: Path) -> None:
    random_file(source, 100)
    error = await fetch_error(place, tmp_path, etag="0123456789abcdef")
    assert (error.code, error.category) == ("source.changed", Category.PERMANENT)
    error = await fetch_error(place, tmp_path, sha256="0" * 64)
    assert (error.code, error.category) == ("source.checksum_mismatch", Category.PERMANENT)


async def test_a_source_over_the_limit_is_refused_by_what_it_says_and_by_what_it_sends(
    place: S3Place, source: Path, tmp_path: Path
) -> None:
    random_file(source, 3 * MIB)
    reader = place.reader(KEY)
    with pytest.raises(StorageError) as caught:
        await reader.fetch(tmp_path / "got", max_bytes=3 * MIB - 1)
    assert caught.value.code == "source.too_large"
    assert (tmp_path / "got").stat().st_size == 0
    await reader.close()


@pytest.mark.parametrize(
    ("status", "store_code", "code", "category"),
    [
        (404, "NoSuchKey", "source.not_found", Category.PERMANENT),
        (423, "Locked", "storage.locked", Category.TEMPORARY),
        (429, "TooManyRequests", "storage.throttled", Category.TEMPORARY),
        (500, "InternalError", "storage.unavailable", Category.TEMPORARY),
        (502, "BadGateway", "storage.unavailable", Category.TEMPORARY),
        (503, "SlowDown", "storage.throttled", Category.TEMPORARY),
        (504, "GatewayTimeout", "storage.unavailable", Category.TEMPORARY),
        (307, "TemporaryRedirect", "storage.redirected", Category.PERMANENT),
        (400, "InvalidArgument", "storage.refused", Category.PERMANENT),
        (403, "RequestTimeTooSkewed", "storage.clock_skew", Category.SYSTEM),
    ],
)
async def test_every_refusal_has_its_code_category_and_exact_status(
    place: S3Place, source: Path, tmp_path: Path, status: int, store_code: str, code: str, category: Category
) -> None:
    headers = {"location": "http://169.254.169.254/"} if status == 307 else {}
    place.gate.faults = [Fault(is_get, times=99, status=status, code=store_code, headers=headers)]
    error = await fetch_error(place, tmp_path)
    assert (error.http_status, error.store_code) == (status, store_code)
    assert (error.code, error.category, error.stage) == (code, category, "fetching")
    assert len(place.gate.seen) == (4 if category is Category.TEMPORARY else 1)
    assert "canary" not in str(error)
    assert "words" not in str(error)


async def test_a_store_that_recovers_costs_nothing_but_time(place: S3Place, source: Path, tmp_path: Path) -> None:
    expected = random_file(source, 100)
    place.gate.faults = [Fault(is_get, status=503, code="SlowDown"), Fault(is_get, status=500)]
    reader = place.reader(KEY)
    assert (await reader.fetch(tmp_path / "got", max_bytes=100)).sha256 == expected
    await reader.close()


async def test_the_wait_that_a_store_asks_for_is_waited_or_left_to_the_job(
    place: S3Place, source: Path, tmp_path: Path
) -> None:
    random_file(source, 100)
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    retries = Retries(sleep=sleep, rng=Random(1))
    place.gate.faults = [Fault(is_get, status=503, headers={"retry-after": "7"})]
    reader = place.reader(KEY, retries=retries)
    await reader.stat()
    assert waits == [7.0]
    place.gate.faults = [Fault(is_get, times=9, status=503, headers={"retry-after": "3600"})]
    with pytest.raises(StorageError) as caught:
        await reader.stat()
    await reader.close()
    assert caught.value.retry_after_us == 3600 * 10**6
    assert waits == [7.0]


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        ((400, "ExpiredToken"), "expired"),
        ((400, "TokenRefreshRequired"), "expired"),
        ((401, "Unauthorized"), "expired"),
        ((403, "AccessDenied"), "denied"),
    ],
)
async def test_a_read_goes_on_with_fresh_credentials(
    place: S3Place, source: Path, tmp_path: Path, refusal: tuple[int, str], reason: str
) -> None:
    expected = random_file(source, 100)
    place.gate.tokens = {"old": Token(expires_at=0, refusal=refusal), "new": Token()}
    credentials = JobCredentials(place.token("old"), fresh=[place.token("new")])
    reader = place.reader(KEY, credentials)
    assert (await reader.fetch(tmp_path / "got", max_bytes=100)).sha256 == expected
    await reader.close()
    assert credentials.renewals == [("source", 1, reason)]


async def test_credentials_that_run_out_one_after_another_are_refreshed_and_then_refused(
    place: S3Place, source: Path
) -> None:
    """While a request waits for its turn, others may use up what it was given; a store that takes nothing ends that."""
    random_file(source, 100)
    place.gate.tokens = {"t4": Token()}
    place.gate.tokens |= {name: Token(expires_at=0) for name in ("t1", "t2", "t3")}
    credentials = JobCredentials(place.token("t1"), fresh=[place.token(name) for name in ("t2", "t3", "t4")])
    reader = place.reader(KEY, credentials)
    await reader.stat()
    assert [seen for _, seen, _ in credentials.renewals] == [1, 2, 3]
    place.gate.tokens |= {name: Token(expires_at=0) for name in ("t4", "t5", "t6", "t7")}
    credentials.fresh[:] = [place.token(name) for name in ("t5", "t6", "t7")]
    with pytest.raises(StorageError, match="just refreshed are refused too"):
        await reader.stat()
    await reader.close()


async def test_credentials_that_run_out_in_the_middle_do_not_cost_what_came_before(
    place: S3Place, source: Path, tmp_path: Path
) -> None:
    expected = random_file(source, 6 * MIB)
    place.gate.tokens = {"old": Token(uses=1), "new": Token()}
    kept: list[int] = []
    place.gate.faults = [Fault(is_get, cut_answer_after=4 * MIB, kept=kept)]
    credentials = JobCredentials(place.token("old"), fresh=[place.token("new")])
    reader = place.reader(KEY, credentials)
    assert (await reader.fetch(tmp_path / "got", max_bytes=6 * MIB, progress=kept.append)).sha256 == expected
    await reader.close()
    assert credentials.renewals == [("source", 1, "expired")]
    first, refused, last = (first_byte(seen) for seen in place.gate.seen)
    assert first == 0
    assert refused == last > 0, "what came before is not fetched again"
    assert last in kept, "it goes on where the file ends"


async def test_fresh_credentials_that_are_refused_for_a_minute_end_the_attempt_and_no_more_are_asked_for(
    place: S3Place, source: Path, tmp_path: Path
) -> None:
    random_file(source, 100)
    place.gate.tokens = {"old": Token(prefix="other/"), "new": Token(prefix="other/"), "more": Token()}
    credentials = JobCredentials(place.token("old"), fresh=[place.token("new"), place.token("more")])
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    error = await fetch_error(place, tmp_path, credentials=credentials, retries=Retries(sleep=sleep))
    assert (error.code, error.category, error.http_status) == ("storage.access_denied", Category.TEMPORARY, 403)
    assert len(credentials.renewals) == 1
    assert sum(waits) == SETTLING_S


async def test_fresh_credentials_that_the_store_does_not_know_yet_are_waited_for(
    place: S3Place, source: Path, tmp_path: Path
) -> None:
    """As R2 and AWS IAM do it: new keys are refused with 403 until they have reached every part of the store."""
    expected = random_file(source, 100)
    place.gate.tokens = {"old": Token(prefix="other/"), "new": Token(prefix="other/")}
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if sum(waits) >= 15:
            place.gate.tokens["new"] = Token()

    credentials = JobCredentials(place.token("old"), fresh=[place.token("new")])
    reader = place.reader(KEY, credentials, retries=Retries(sleep=sleep))
    assert (await reader.fetch(tmp_path / "got", max_bytes=100)).sha256 == expected
    assert len(credentials.renewals) == 1
    # Another request meets a part of the store that has not heard of them: it waits as well, and asks for no others.
    place.gate.tokens["new"] = Token(prefix="other/")
    await reader.stat()
    await reader.close()
    assert len(credentials.renewals) == 1


async def test_a_wrong_secret_is_refused_by_the_store_itself(place: S3Place, source: Path, tmp_path: Path) -> None:
    random_file(source, 100)
    wrong = AccessKeys(access_key_id=place.keys.access_key_id, secret_access_key="wrong")
    error = await fetch_error(place, tmp_path, credentials=JobCredentials(wrong, fresh=[wrong]))
    assert (error.http_status, error.store_code) == (403, "SignatureDoesNotMatch")


async def test_a_drip_is_given_up_by_rate_and_by_silence(place: S3Place, source: Path, tmp_path: Path) -> None:
    random_file(source, 2 * MIB)
    once = Retries(tries=1, sleep=no_wait)
    place.timing = Timing(grace_s=0.2, min_rate=10 * MIB)
    place.gate.faults = [Fault(is_get, times=9, drip_s=0.1)]
    error = await fetch_error(place, tmp_path, retries=once)
    assert (error.code, error.category) == ("storage.timeout", Category.TIMEOUT)
    place.timing = Timing(idle_s=0.2)
    place.gate.faults = [Fault(is_get, times=9, drip_s=5)]
    error = await fetch_error(place, tmp_path, retries=once)
    assert (error.code, error.category) == ("storage.timeout", Category.TIMEOUT)


async def test_a_full_disk_is_the_workers_trouble_and_not_the_stores(place: S3Place, source: Path) -> None:
    random_file(source, 2 * MIB)
    reader = place.reader(KEY)
    with pytest.raises(StorageError) as caught:
        await reader.fetch(Path("/dev/full"), max_bytes=2 * MIB)
    await reader.close()
    assert (caught.value.code, caught.value.category) == ("worker.disk", Category.SYSTEM)
