"""The vectors that other languages use: openssl made them, and our signer, our verifier and Node agree with
them.
"""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from euterpe import webhooks
from euterpe.webhook.signing import sign
from tests.webhook.make_vectors import VECTORS, openssl_headers, vectors
from tests.webhook.tools import require

DOCUMENT: dict[str, Any] = json.loads(VECTORS.read_text(encoding="utf-8"))
ALL: list[dict[str, Any]] = DOCUMENT["vectors"]
SIGNED = [vector for vector in ALL if "signing_secrets" in vector]


def _name(vector: dict[str, Any]) -> str:
    return str(vector["name"])


def _verify(vector: dict[str, Any], nonces: webhooks.NonceStore) -> str:
    try:
        webhooks.verify(
            vector["headers"],
            base64.b64decode(vector["body_base64"]),
            vector["receiver_secrets"],
            nonces=nonces,
            now=vector["now"],
            tolerance_s=DOCUMENT["tolerance_s"],
        )
    except webhooks.WebhookVerificationError as error:
        return type(error).__name__
    return "ok"


@pytest.mark.parametrize("vector", SIGNED, ids=_name)
def test_signing_gives_exactly_the_headers_of_the_vector(vector: dict[str, Any]) -> None:
    headers = sign(
        vector["signing_secrets"],
        base64.b64decode(vector["body_base64"]),
        event_id=vector["event_id"],
        timestamp=vector["timestamp"],
        nonce=vector["nonce"],
    )
    assert headers == vector["headers"]


@pytest.mark.parametrize("vector", ALL, ids=_name)
def test_verifying_ends_as_the_vector_says(vector: dict[str, Any]) -> None:
    nonces = webhooks.MemoryNonces()
    assert _verify(vector, nonces) == vector["expect"]
    assert _verify(vector, nonces) == ("ReplayedNonce" if vector["expect"] == "ok" else vector["expect"])


def test_the_file_has_every_kind_of_error() -> None:
    outcomes = {vector["expect"] for vector in ALL}
    errors = {error.__name__ for error in webhooks.WebhookVerificationError.__subclasses__()}
    assert outcomes == {"ok"} | errors - {"ReplayedNonce", "NonceStoreFull"}


def test_the_text_and_the_bytes_of_a_body_agree() -> None:
    assert all(vector["body_text"].encode() == base64.b64decode(vector["body_base64"]) for vector in SIGNED)


def test_openssl_still_computes_what_the_file_says() -> None:
    require("openssl")
    assert vectors() == ALL
    vector = next(vector for vector in SIGNED if len(vector["signing_secrets"]) == 2)
    recomputed = openssl_headers(
        vector["signing_secrets"],
        vector["body_text"].encode(),
        vector["event_id"],
        vector["timestamp"],
        vector["nonce"],
    )
    assert recomputed == vector["headers"]


def test_the_node_receiver_agrees_on_every_vector() -> None:
    script = Path(__file__).with_name("check_vectors.mjs")
    done = subprocess.run(
        [require("node"), str(script), str(VECTORS)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"checked": len(ALL), "wrong": []}
