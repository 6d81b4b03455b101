"""Writes vectors.json. Every digest in it comes from the `openssl` command, none from the code under test.

python -m tests.webhook.make_vectors

The tests check Euterpe's `sign` and `verify` and the Node receiver against the file, and the file against
openssl.
"""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).with_name("vectors.json")

NEW = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OLD = "whsec_" + base64.b64encode(bytes(range(100, 132))).decode()
STRANGER = "whsec_" + base64.b64encode(b"\x07" * 32).decode()
SENT_AT = 1_790_000_000
NONCE = "q3kZ0vQ1m9x_A-7bEo5TnYcW"
EVENT_ID = "evt_0192f3c4"

Vector = dict[str, Any]


def openssl_hmac(key: bytes, message: bytes) -> bytes:
    command = ["openssl", "dgst", "-sha256", "-mac", "HMAC", "-macopt", f"hexkey:{key.hex()}", "-binary"]
    return subprocess.run(command, input=message, capture_output=True, check=True).stdout


def openssl_headers(secrets: list[str], body: bytes, event_id: str, timestamp: int, nonce: str) -> dict[str, str]:
    ours = [openssl_hmac(one.encode(), f"{timestamp}.{nonce}.".encode() + body).hex() for one in secrets]
    standard = [
        openssl_hmac(base64.b64decode(one.removeprefix("whsec_")), f"{event_id}.{timestamp}.".encode() + body)
        for one in secrets
    ]
    headers = {
        "x-euterpe-signature": ours[0],
        "x-euterpe-timestamp": str(timestamp),
        "x-euterpe-nonce": nonce,
        "x-euterpe-event-id": event_id,
        "webhook-id": event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join("v1," + base64.b64encode(one).decode() for one in standard),
    }
    if len(ours) > 1:
        headers["x-euterpe-signature-2"] = ours[1]
    return headers


def signed(
    name: str,
    body: str,
    *,
    secrets: list[str] | None = None,
    receiver_secrets: list[str] | None = None,
    event_id: str = EVENT_ID,
    now: int = SENT_AT + 2,
    expect: str = "ok",
) -> Vector:
    """A delivery as Euterpe sends it."""
    active = secrets or [NEW]
    return {
        "name": name,
        "signing_secrets": active,
        "receiver_secrets": receiver_secrets or active,
        "event_id": event_id,
        "timestamp": SENT_AT,
        "nonce": NONCE,
        "body_text": body,
        "body_base64": base64.b64encode(body.encode()).decode(),
        "headers": openssl_headers(active, body.encode(), event_id, SENT_AT, NONCE),
        "now": now,
        "expect": expect,
    }


def tampered(name: str, expect: str, base: Vector, *, body: bytes | None = None, **headers: str | None) -> Vector:
    """The same delivery after someone changed it: headers set or (None) removed, or another body."""
    changed = {key: value for key, value in base.items() if key not in ("signing_secrets", "body_text")}
    changed |= {"name": name, "expect": expect}
    if body is not None:
        changed["body_base64"] = base64.b64encode(body).decode()
    patch = {name.replace("_", "-"): value for name, value in headers.items()}
    merged = {**base["headers"], **patch}
    changed["headers"] = {name: value for name, value in merged.items() if value is not None}
    return changed


def vectors() -> list[Vector]:
    body = json.dumps({"event_id": EVENT_ID, "type": "job.completed", "ratio": 1.5, "sequence": 3})
    plain = signed("plain", body)
    rotating = signed("rotation, the receiver knows both secrets", body, secrets=[NEW, OLD])
    ours = plain["headers"]["x-euterpe-signature"]
    before_dot, after_dot = body.split(".", 1)
    second_only = openssl_hmac(OLD.encode(), f"{SENT_AT}.{NONCE}.".encode() + body.encode()).hex()
    return [
        plain,
        signed("unicode body", f'{{"event_id": "{EVENT_ID}", "title": "Être 音楽 🎵 \\u0000"}}'),
        signed("white space and key order are kept", f'\n{{ "z" : 1,\t"event_id":"{EVENT_ID}" }}\r\n'),
        signed("empty body", "", expect="MalformedBody"),
        signed("body that is not JSON", "event_id=1", expect="MalformedBody"),
        signed("body that is no object", f'["{EVENT_ID}"]', expect="MalformedBody"),
        signed("body with a numeric event id", '{"event_id": 7}', expect="MalformedBody"),
        signed("header for another event", body, event_id="evt_other", expect="EventIdMismatch"),
        rotating,
        signed("rotation, only the new secret", body, secrets=[NEW, OLD], receiver_secrets=[NEW]),
        signed("rotation, only the old secret", body, secrets=[NEW, OLD], receiver_secrets=[OLD]),
        signed("before a rotation, both known", body, secrets=[OLD], receiver_secrets=[NEW, OLD]),
        signed("a stranger's secret", body, receiver_secrets=[STRANGER], expect="InvalidSignature"),
        signed("at the edge of the window, late", body, now=SENT_AT + 300),
        signed("at the edge of the window, early", body, now=SENT_AT - 300),
        signed("too late", body, now=SENT_AT + 301, expect="StaleTimestamp"),
        signed("too early", body, now=SENT_AT - 301, expect="StaleTimestamp"),
        tampered("one byte of the body", "InvalidSignature", plain, body=body.replace("3", "4").encode()),
        tampered("a line feed after the body", "InvalidSignature", plain, body=body.encode() + b"\n"),
        tampered("body emptied", "InvalidSignature", plain, body=b""),
        tampered("timestamp", "InvalidSignature", plain, x_euterpe_timestamp=str(SENT_AT + 1)),
        tampered("timestamp in words", "MalformedHeader", plain, x_euterpe_timestamp="now"),
        tampered("timestamp with a sign", "MalformedHeader", plain, x_euterpe_timestamp=f"+{SENT_AT}"),
        tampered("timestamp with a fraction", "MalformedHeader", plain, x_euterpe_timestamp=f"{SENT_AT}.0"),
        tampered("timestamp with a leading zero", "MalformedHeader", plain, x_euterpe_timestamp=f"0{SENT_AT}"),
        tampered("nonce", "InvalidSignature", plain, x_euterpe_nonce=NONCE[::-1]),
        tampered("nonce too short", "MalformedHeader", plain, x_euterpe_nonce="short"),
        tampered(
            "border between nonce and body moved",
            "MalformedHeader",
            plain,
            body=after_dot.encode(),
            x_euterpe_nonce=f"{NONCE}.{before_dot}",
        ),
        tampered("event id header", "EventIdMismatch", plain, x_euterpe_event_id="evt_0192f3c5"),
        tampered("signature in upper case", "InvalidSignature", plain, x_euterpe_signature=ours.upper()),
        tampered("signature cut short", "InvalidSignature", plain, x_euterpe_signature=ours[:-1]),
        tampered("signature empty", "InvalidSignature", plain, x_euterpe_signature=""),
        tampered("signature of zeros", "InvalidSignature", plain, x_euterpe_signature="0" * 64),
        tampered(
            "second signature of a forger",
            "InvalidSignature",
            plain | {"receiver_secrets": [STRANGER]},
            x_euterpe_signature_2="f" * 64,
        ),
        tampered(
            "first signature spoiled, the second still proves it",
            "ok",
            rotating,
            x_euterpe_signature="0" * 64,
            x_euterpe_signature_2=second_only,
        ),
        tampered("no signature", "MissingHeader", plain, x_euterpe_signature=None),
        tampered("no timestamp", "MissingHeader", plain, x_euterpe_timestamp=None),
        tampered("no nonce", "MissingHeader", plain, x_euterpe_nonce=None),
        tampered("no event id", "MissingHeader", plain, x_euterpe_event_id=None),
        tampered("second signature alone", "MissingHeader", rotating, x_euterpe_signature=None),
    ]


if __name__ == "__main__":
    document = {
        "about": "Euterpe webhook signatures. Digests by the openssl command; header names in any case.",
        "tolerance_s": 300,
        "vectors": vectors(),
    }
    VECTORS.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
