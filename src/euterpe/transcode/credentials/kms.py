"""AWS KMS as the keeper of the key-encryption key: data keys are wrapped there, and our process never sees that key.

The endpoint is the operator's own, so the egress policy for requesters' addresses does not apply; there are still no
redirects and no proxies. Calls block: whoever seals does so beside the event loop.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import http.client
import json
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from euterpe.crypto import InvalidKeyring, MissingKek, SealBroken
from euterpe.transcode.schema.locations import AccessKeys
from euterpe.transcode.storage.s3.sigv4 import SignableRequest, signed_headers

KMS_PREFIX: Final = "kms:"
_TIMEOUT_S: Final = 10.0
_MAX_ANSWER: Final = 64 * 1024
_BROKEN: Final = frozenset({"InvalidCiphertextException", "IncorrectKeyException"})


class KeyServiceFailed(MissingKek):
    """KMS did not do it: it is away, the key is disabled, or our credentials may not use it. Worth a retry."""

    def __init__(self, kek_id: str, why: str) -> None:
        super().__init__(kek_id)
        self.args = (f"kek {kek_id!r}: KMS {why}",)


class KmsKeys:
    """Wraps data keys with one KMS key; opens what this or another KMS key of the region has wrapped."""

    def __init__(
        self,
        key_id: str,
        region: str,
        keys: AccessKeys,
        endpoint: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._key_id = key_id
        self._region = region
        self._keys = keys
        self._endpoint = urlsplit(endpoint or f"https://kms.{region}.amazonaws.com")
        self._clock = clock
        if self._endpoint.scheme not in ("http", "https") or not self._endpoint.hostname:
            raise InvalidKeyring("EUTERPE_KMS_ENDPOINT: must be https://host[:port]")
        if self._endpoint.scheme == "http" and self._endpoint.hostname not in ("127.0.0.1", "localhost", "::1"):
            raise InvalidKeyring("EUTERPE_KMS_ENDPOINT: must be https, unless it is this machine")

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> KmsKeys:
        """EUTERPE_KMS_KEY names the key; the rest comes from AWS's own variables. Raises InvalidKeyring."""
        region = env.get("EUTERPE_KMS_REGION") or env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or ""
        needed = {
            "EUTERPE_KMS_KEY": env.get("EUTERPE_KMS_KEY", ""),
            "EUTERPE_KMS_REGION (or AWS_REGION)": region,
            "AWS_ACCESS_KEY_ID": env.get("AWS_ACCESS_KEY_ID", ""),
            "AWS_SECRET_ACCESS_KEY": env.get("AWS_SECRET_ACCESS_KEY", ""),
        }
        missing = [name for name, value in needed.items() if not value]
        if missing:
            raise InvalidKeyring(f"{', '.join(missing)}: is not set, and KMS needs it")
        keys = AccessKeys(
            access_key_id=env["AWS_ACCESS_KEY_ID"],
            secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
            session_token=env.get("AWS_SESSION_TOKEN") or None,
        )
        return cls(env["EUTERPE_KMS_KEY"], region, keys, env.get("EUTERPE_KMS_ENDPOINT") or None)

    @property
    def active_kek_id(self) -> str:
        return f"{KMS_PREFIX}{self._key_id}"

    def wrap(self, dek: bytes, associated_data: bytes) -> tuple[str, bytes]:
        kek_id = self.active_kek_id
        answer = self._call(
            "Encrypt",
            kek_id,
            {
                "KeyId": self._key_id,
                "Plaintext": base64.b64encode(dek).decode("ascii"),
                "EncryptionContext": _context(kek_id, associated_data),
            },
        )
        return kek_id, _decoded(answer, "CiphertextBlob")

    def unwrap(self, kek_id: str, wrapped: bytes, associated_data: bytes) -> bytes:
        if not kek_id.startswith(KMS_PREFIX):
            raise MissingKek(kek_id)
        answer = self._call(
            "Decrypt",
            kek_id,
            {
                "KeyId": kek_id.removeprefix(KMS_PREFIX),
                "CiphertextBlob": base64.b64encode(wrapped).decode("ascii"),
                "EncryptionContext": _context(kek_id, associated_data),
            },
        )
        return _decoded(answer, "Plaintext")

    def __repr__(self) -> str:
        return f"KmsKeys(active={self.active_kek_id!r})"

    def _call(self, operation: str, kek_id: str, document: Mapping[str, Any]) -> dict[str, Any]:
        body = json.dumps(document).encode()
        headers = {"content-type": "application/x-amz-json-1.1", "x-amz-target": f"TrentService.{operation}"}
        request = SignableRequest("POST", self._endpoint.netloc, "/", (), headers, hashlib.sha256(body).hexdigest())
        signed = signed_headers(request, self._keys, self._region, "kms", self._clock())
        try:
            status, answer = self._post(body, signed)
        except (OSError, http.client.HTTPException) as error:
            raise KeyServiceFailed(kek_id, f"did not answer ({type(error).__name__})") from None
        if status == 200:
            return answer
        error_type = str(answer.get("__type", "")).rpartition("#")[2]
        if error_type in _BROKEN:
            raise SealBroken
        raise KeyServiceFailed(kek_id, f"answered {status} {error_type if error_type.isalnum() else ''}".strip())

    def _post(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        host, port = self._endpoint.hostname or "", self._endpoint.port
        connection: http.client.HTTPConnection
        if self._endpoint.scheme == "https":
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=context)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
        try:
            connection.request("POST", "/", body, {**headers, "host": self._endpoint.netloc})
            response = connection.getresponse()
            text = response.read(_MAX_ANSWER)
        finally:
            connection.close()
        try:
            answer = json.loads(text)
        except ValueError:
            answer = {}
        return response.status, answer if isinstance(answer, dict) else {}


def _context(kek_id: str, associated_data: bytes) -> dict[str, str]:
    """KMS binds the wrap to this text and writes it into its audit log, so it is a digest."""
    bound = len(kek_id.encode()).to_bytes(4, "big") + kek_id.encode() + associated_data
    return {"euterpe": hashlib.sha256(bound).hexdigest()}


def _decoded(answer: Mapping[str, Any], name: str) -> bytes:
    try:
        return base64.b64decode(str(answer[name]), validate=True)
    except (KeyError, binascii.Error):
        raise SealBroken from None
