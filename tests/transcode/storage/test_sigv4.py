"""Our signatures are those of AWS: the published example, and botocore for requests of every shape."""

from __future__ import annotations

from datetime import UTC, datetime
from unittest.mock import patch

import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given, settings
from hypothesis import strategies as st

from euterpe.transcode.schema.locations import AccessKeys
from euterpe.transcode.storage.s3.sigv4 import (
    EMPTY_SHA256,
    UNSIGNED_PAYLOAD,
    SignableRequest,
    encoded,
    query_string,
    signed_headers,
)

AT = datetime(2013, 5, 24, tzinfo=UTC)
KEYS = AccessKeys(access_key_id="AKIAIOSFODNN7EXAMPLE", secret_access_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
HOST = "examplebucket.s3.amazonaws.com"


def test_the_published_example_of_a_ranged_get() -> None:
    request = SignableRequest("GET", HOST, "/test.txt", (), {"Range": "bytes=0-9"}, EMPTY_SHA256)
    signed = signed_headers(request, KEYS, "us-east-1", "s3", AT.timestamp())
    assert signed["authorization"].endswith(
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    )


def test_the_published_example_of_a_put() -> None:
    sha256 = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"
    headers = {"Date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"}
    request = SignableRequest("PUT", HOST, f"/{encoded('test$file.text')}", (), headers, sha256)
    signed = signed_headers(request, KEYS, "us-east-1", "s3", AT.timestamp())
    assert signed["authorization"].endswith("98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd")


text = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00", categories=("L", "N", "P", "S", "Zs")), max_size=20
)


@settings(max_examples=60, deadline=None)
@given(
    method=st.sampled_from(["GET", "PUT", "POST", "DELETE"]),
    key=text.filter(lambda key: key not in (".", "..") and "/." not in f"/{key}"),
    query=st.dictionaries(st.sampled_from(["uploads", "uploadId", "partNumber", "é", "a+b"]), text, max_size=3),
    token=st.none() | st.just("token/with+signs=="),
    payload=st.sampled_from([EMPTY_SHA256, UNSIGNED_PAYLOAD, "ab" * 32]),
)
def test_botocore_signs_the_same(method: str, key: str, query: dict[str, str], token: str | None, payload: str) -> None:
    path = f"/bucket/{encoded(key, keep='/')}"
    keys = AccessKeys(access_key_id="AKID", secret_access_key="secret", session_token=token)
    request = SignableRequest(method, "s3.example.com", path, list(query.items()), {"x-amz-meta-a": "b"}, payload)
    ours = signed_headers(request, keys, "auto", "s3", AT.timestamp())

    target = f"https://s3.example.com{path}" + (f"?{query_string(list(query.items()))}" if query else "")
    theirs = AWSRequest(method, target, headers={"x-amz-meta-a": "b", "x-amz-content-sha256": payload})
    auth = S3SigV4Auth(Credentials("AKID", "secret", token), "s3", "auto")
    with (
        patch("botocore.auth.get_current_datetime", return_value=AT.replace(tzinfo=None)),
        patch.object(S3SigV4Auth, "payload", return_value=payload),
    ):
        auth.add_auth(theirs)
    assert ours["authorization"] == theirs.headers["Authorization"]


@pytest.mark.parametrize("token", [None, "a-token"])
def test_botocore_signs_a_call_to_kms_the_same(token: str | None) -> None:
    body = b'{"KeyId": "k"}'
    headers = {"content-type": "application/x-amz-json-1.1", "x-amz-target": "TrentService.Encrypt"}
    keys = AccessKeys(access_key_id="AKID", secret_access_key="secret", session_token=token)
    sha256 = "b1d5781111d84f7b3fe45a0852e59758cd7a87e5"
    theirs = AWSRequest("POST", "https://kms.eu-west-1.amazonaws.com/", headers=dict(headers), data=body)
    with (
        patch("botocore.auth.get_current_datetime", return_value=AT.replace(tzinfo=None)),
        patch.object(SigV4Auth, "payload", return_value=sha256),
    ):
        SigV4Auth(Credentials("AKID", "secret", token), "kms", "eu-west-1").add_auth(theirs)
    request = SignableRequest("POST", "kms.eu-west-1.amazonaws.com", "/", (), headers, sha256)
    ours = signed_headers(request, keys, "eu-west-1", "kms", AT.timestamp())
    assert ours["authorization"] == theirs.headers["Authorization"]
