"""Fresh credentials from the requester: what PUT /transcode/{job_id}/credentials does, whoever serves it.

One transaction replaces the sealed set and advances its version, while the version is the one that the requester
saw and the job has not ended. Repeating a PUT with its refresh_id gives the first answer again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from euterpe.egress.target import EgressPolicy
from euterpe.model.errors import EuterpeError, JobNotFound
from euterpe.model.state import TERMINAL
from euterpe.transcode.credentials.repository import CredentialStore, StoredCredentials
from euterpe.transcode.schema.location_rules import read_locations
from euterpe.transcode.schema.locations import (
    CredentialSet,
    DestinationLocation,
    Locations,
    PutUrlDestination,
    SignedUrlSource,
    SourceLocation,
)
from euterpe.transcode.schema.reading import FieldProblem, escaped

_IF_MATCH: Final = re.compile(r'\s*"([1-9][0-9]{0,8})"\s*', re.ASCII)
_REFRESH_ID: Final = re.compile(r"[!-~]{1,128}", re.ASCII)
_FIELDS: Final = frozenset({"credentials", "source", "destination", "put_urls", "refresh_id"})


class CredentialsRefused(EuterpeError):
    """A PUT of credentials that changed nothing. `http_status` is what its sender is told."""

    http_status: int
    code: str


class VersionRequired(CredentialsRefused):
    http_status, code = 428, "credentials.version_required"

    def __init__(self) -> None:
        super().__init__('send If-Match with the credential_version that you saw, such as "1"')


class VersionPassed(CredentialsRefused):
    http_status, code = 412, "credentials.version_passed"

    def __init__(self, current: int) -> None:
        super().__init__(f"the credential_version is {current} by now")
        self.current = current


class JobEnded(CredentialsRefused):
    http_status, code = 409, "credentials.job_ended"

    def __init__(self, state: str) -> None:
        super().__init__(f"the job has ended ({state}) and takes no credentials any more")


class UpdateInvalid(CredentialsRefused):
    http_status, code = 422, "credentials.invalid"

    def __init__(self, problems: tuple[FieldProblem, ...]) -> None:
        super().__init__(f"{len(problems)} problems: {', '.join(problem.pointer for problem in problems)}")
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Updated:
    job_id: str
    credential_version: int
    replayed: bool = False


async def update_credentials(
    store: CredentialStore,
    job_id: str,
    requester_id: str,
    if_match: str | None,
    body: Mapping[str, object],
    policy: EgressPolicy,
    now_s: float,
) -> Updated:
    """Raises JobNotFound or CredentialsRefused; then nothing has changed."""
    if if_match is None:
        raise VersionRequired
    stored = await store.get(job_id)
    if stored is None or stored.requester_id != requester_id:
        raise JobNotFound(job_id)
    refresh_id = body.get("refresh_id")
    if refresh_id is not None and refresh_id == stored.refresh_id:
        return Updated(job_id, stored.version, replayed=True)
    state = await store.job_state(job_id, requester_id)
    if state is None:
        raise JobNotFound(job_id)
    if state in TERMINAL:
        raise JobEnded(state)
    seen = _IF_MATCH.fullmatch(if_match)
    if seen is None or int(seen.group(1)) != stored.version:
        raise VersionPassed(stored.version)
    secrets = read_update(body, stored.locations, policy, now_s)
    sealed = await store.seal(job_id, requester_id, stored.version + 1, secrets)
    given_id = refresh_id if isinstance(refresh_id, str) else None
    updated = await store.replace(stored, sealed, secrets.expires_at, given_id)
    if updated is None:
        return await _lost(store, stored, given_id)
    return Updated(job_id, updated.version)


def read_update(body: Mapping[str, object], locations: Locations, policy: EgressPolicy, now_s: float) -> CredentialSet:
    """The whole set for these places: nothing of the old one is kept, for it is not opened here.

    Raises UpdateInvalid.
    """
    found = [
        FieldProblem(f"/{escaped(name)}", "unknown_field", "there is no such option")
        for name in body
        if name not in _FIELDS
    ]
    refresh_id = body.get("refresh_id")
    if refresh_id is not None and not (isinstance(refresh_id, str) and _REFRESH_ID.fullmatch(refresh_id)):
        found.append(FieldProblem("/refresh_id", "invalid", "1 to 128 printable ASCII characters are expected"))
    request, put_ids = _as_request(body, locations, found)
    read = read_locations(request, policy, now_s)
    if isinstance(locations.destination, PutUrlDestination) and not put_ids:
        raise UpdateInvalid(tuple(found))  # Without any of its URLs, the rules would ask for a destination.
    found += [_moved(problem, put_ids) for problem in read.problems]
    if read.locations is not None:
        found += _changes(read.locations, locations)
    if found:
        raise UpdateInvalid(tuple(found))
    return read.credentials


def _as_request(
    body: Mapping[str, object], locations: Locations, found: list[FieldProblem]
) -> tuple[dict[str, object], list[str]]:
    """As if the job were submitted anew with these credentials, so that the same rules hold."""
    request: dict[str, object] = {"credentials": body.get("credentials"), "outputs": []}
    if isinstance(locations.source, SignedUrlSource) and body.get("source") is None:
        found.append(FieldProblem("/source", "missing", "the signed URL of the source is required"))
    request["source"] = _same_kind(body, "source", locations.source, found)
    if not isinstance(locations.destination, PutUrlDestination):
        request["destination"] = _same_kind(body, "destination", locations.destination, found)
        return request, []
    urls = body.get("put_urls")
    given: dict[str, Any] = urls if isinstance(urls, dict) else {}
    known = locations.destination.urls
    found += [
        FieldProblem(f"/put_urls/{escaped(name)}", "unknown_field", "no output has this id")
        for name in sorted(given.keys() - known.keys())
    ]
    found += [
        FieldProblem(f"/put_urls/{escaped(name)}", "missing", "every output needs its URL")
        for name in sorted(known)
        if given.get(name) is None
    ]
    put_ids = sorted(name for name in known if given.get(name) is not None)
    # The kind is of no importance here, but that it is one that takes a single file.
    request["outputs"] = [{"id": name, "kind": "audio", "put_url": given[name]} for name in put_ids]
    return request, put_ids


def _same_kind(
    body: Mapping[str, object], name: str, before: SourceLocation | DestinationLocation, found: list[FieldProblem]
) -> object:
    """What was said of this place, or what is known of it; one of another type is not even read."""
    known: dict[str, Any] = msgspec.to_builtins(before)
    value = body.get(name)
    if value is None:
        return known
    if not isinstance(value, dict) or value.get("type") != known["type"]:
        found.append(FieldProblem(f"/{name}", "changed", f"a job's {name} cannot change: submit another job"))
        return known
    return value


def _changes(now: Locations, before: Locations) -> list[FieldProblem]:
    """Fresh credentials open the same places."""
    changed = []
    if _unpinned(now.source) != _unpinned(before.source):
        changed.append(FieldProblem("/source", "changed", "a job's source cannot change: submit another job"))
    if now.destination != before.destination:
        changed.append(FieldProblem("/destination", "changed", "a job's destination cannot change: submit another job"))
    return changed


def _unpinned(source: SourceLocation) -> SourceLocation:
    """Without what pins its content: whoever sends a fresh URL need not repeat that."""
    unpinned = {name: None for name in ("etag", "sha256") if hasattr(source, name)}
    return msgspec.structs.replace(source, **unpinned)


def _moved(problem: FieldProblem, put_ids: list[str]) -> FieldProblem:
    """The pointer into what was sent, where the rules looked at a list of outputs."""
    _, _, rest = problem.pointer.partition("/outputs/")
    index, _, below = rest.partition("/put_url")
    return replace(problem, pointer=f"/put_urls/{escaped(put_ids[int(index)])}{below}") if rest else problem


async def _lost(store: CredentialStore, stored: StoredCredentials, refresh_id: str | None) -> Updated:
    """Somebody was faster: perhaps the same request, sent twice."""
    current = await store.get(stored.job_id)
    if current is None:
        raise JobNotFound(stored.job_id)
    if refresh_id is not None and current.refresh_id == refresh_id:
        return Updated(stored.job_id, current.version, replayed=True)
    if current.version != stored.version:
        raise VersionPassed(current.version)
    raise JobEnded(await store.job_state(stored.job_id, stored.requester_id) or "pruned")
