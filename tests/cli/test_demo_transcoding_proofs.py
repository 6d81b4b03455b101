"""What the demo says of its transcode is a look at facts: with one of them wrong, that proof fails, and no other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from euterpe.cli.demo import transcoding_proofs
from euterpe.cli.demo.object_store import BUCKET, ObjectStore
from euterpe.cli.demo.processes import ApiFacts
from euterpe.cli.demo.receiver import Receiver
from euterpe.cli.demo.transcoding_steps import OUTPUTS, Media, secrets_found


def event(**payload: object) -> Any:
    return SimpleNamespace(payload=payload)


@pytest.fixture
def media(tmp_path: Path) -> Media:
    """A run in which everything held."""
    store = ObjectStore(tmp_path / "s3")
    out = store.path_of("out")
    out.mkdir(parents=True)
    outputs = []
    for output in OUTPUTS:
        name = str(output["id"])
        (out / name).write_text(name)
        outputs.append({"key": f"out/{name}", "sha256": hashlib.sha256(name.encode()).hexdigest()})
    store.issue()
    store.refused, store.uploads_begun = ["GET", "PUT part 2"], ["/demo/a", "/demo/b"]
    found = Media(tmp_path, store, ApiFacts("", "", ""), Receiver(), Receiver())
    found.webhooks.events = [
        event(type=f"transcode.{word}", sequence=number) for number, word in enumerate(("claimed", "succeeded"))
    ]
    found.refreshes.events = [event(reason="expired"), event(reason="expired")]
    found.updates = [200, 200]
    found.status = {
        "status": "succeeded", "attempt_count": 2, "refresh_attempts": 2, "credential_version": 3, "outputs": outputs,
    }  # fmt: skip
    (tmp_path / "work").mkdir()
    (tmp_path / "demo.db").write_bytes(b"rows")
    return found


def failed(media: Media) -> list[str]:
    media.leaks += secrets_found(media)
    return [prove.__name__ for prove in transcoding_proofs.PROOFS if not prove(media).holds]


def test_all_of_it_holds_when_all_of_it_happened(media: Media) -> None:
    assert failed(media) == []


def _set(name: str, value: object) -> Callable[[Media], object]:
    return lambda media: media.status.update({name: value})


@pytest.mark.parametrize(
    ("spoil", "proof"),
    [
        (_set("attempt_count", 1), "the_killed_encode_was_finished"),
        (_set("status", "failed"), "the_killed_encode_was_finished"),
        (_set("credential_version", 2), "refused_credentials_were_refreshed"),
        (lambda media: media.updates.__setitem__(1, 412), "refused_credentials_were_refreshed"),
        (lambda media: setattr(media.refreshes, "refused", 1), "refused_credentials_were_refreshed"),
        (lambda media: setattr(media.store, "uploads_begun", ["/demo/a", "/demo/a"]), "the_upload_went_on"),
        (lambda media: media.store.refused.remove("PUT part 2"), "the_upload_went_on"),
        (lambda media: media.store.path_of("out/mp3").write_text("other"), "outputs_have_their_checksums"),
        (lambda media: (media.folder / "work" / "left").write_text(""), "nothing_is_left"),
        (lambda media: media.store.path_of("out/half").write_text(""), "nothing_is_left"),
        (lambda media: media.webhooks.events.reverse(), "webhooks_were_signed"),
        (lambda media: setattr(media.webhooks, "refused", 1), "webhooks_were_signed"),
        (
            lambda media: (media.folder / "demo.db").write_text(f"x{media.store.secret_access_key}y"),
            "secrets_were_sealed",
        ),
        (lambda media: (media.folder / "media-a.log").write_text(media.store.issued[0]), "secrets_were_sealed"),
    ],
)
def test_one_fact_that_is_wrong_fails_its_proof(media: Media, spoil: Callable[[Media], object], proof: str) -> None:
    spoil(media)
    assert failed(media) == [proof]


def test_what_the_store_itself_keeps_is_no_leak(media: Media) -> None:
    (media.store.folder / BUCKET / "in").write_text(media.store.secret_access_key)
    assert secrets_found(media) == []
