"""docs/webhooks.md: the code on the page is run as it stands there."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import redis

from euterpe import webhooks
from euterpe.egress.client import DEFAULT_DEADLINE_S, MAX_ANSWER_BYTES, MAX_HEAD_BYTES
from euterpe.egress.target import DEFAULT_PORTS
from euterpe.webhook.signing import new_nonce, new_secret, sign
from euterpe.webhooks import NonceStore, ReplayedNonce, verify
from tests.webhook.running import EXAMPLES, running
from tests.webhook.tools import require

PAGE = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text(encoding="utf-8")
SECRET = new_secret()
BODY = b'{"event_id": "evt_1", "type": "job.completed"}'


def _block(language: str, mark: str) -> str:
    """The one code block of this language that has this mark in it."""
    found = [code for code in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) if mark in code]
    assert len(found) == 1, f"{len(found)} blocks of {language} with {mark!r}"
    return str(found[0])


def _run_python(mark: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(_block("python", mark), names)  # noqa: S102 - our own page
    return names


def _shell(mark: str, folder: Path, **values: str) -> str:
    require("openssl")
    (folder / "body.json").write_bytes(BODY)
    done = subprocess.run(
        ["sh", "-ceu", _block("sh", mark)],
        cwd=folder,
        env={**os.environ, "SECRET": SECRET, **values},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip()


def _delivery(now_s: int) -> dict[str, str]:
    return sign(SECRET, BODY, event_id="evt_1", timestamp=now_s, nonce=new_nonce())


def test_the_python_lines_accept_and_refuse(now_s: int) -> None:
    receive = _run_python("def receive")["receive"]
    headers = _delivery(now_s)
    assert receive(headers, BODY + b" ", SECRET)[0] == 401
    assert receive(headers, BODY, SECRET) == (204, "evt_1")
    assert receive(headers, BODY, SECRET)[0] == 401


def test_the_node_lines_accept_and_refuse(tmp_path: Path, now_s: int) -> None:
    headers = _delivery(now_s)
    cases = [
        (headers, BODY, True),
        (headers, BODY + b" ", False),
        (headers | {"x-euterpe-event-id": "evt_2"}, BODY, False),
        (headers | {"x-euterpe-signature": "0" * 64}, BODY, False),
        (_delivery(now_s - 301), BODY, False),
        ({}, BODY, False),
    ]
    program = _block("js", "timingSafeEqual") + (
        f"const cases = {json.dumps([(one, body.decode()) for one, body, _ in cases])};\n"
        f"const said = cases.map(([h, b]) => genuine(h, Buffer.from(b), {json.dumps(SECRET)}, {now_s}));\n"
        "console.log(JSON.stringify(said));\n"
    )
    path = tmp_path / "lines.mjs"
    path.write_text(program)
    done = subprocess.run([require("node"), str(path)], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == [expected for *_, expected in cases]


def test_the_openssl_line_prints_the_signature(tmp_path: Path, now_s: int) -> None:
    headers = _delivery(now_s)
    printed = _shell(
        "f1\n",
        tmp_path,
        TIMESTAMP=headers["x-euterpe-timestamp"],
        NONCE=headers["x-euterpe-nonce"],
    )
    assert printed == headers["x-euterpe-signature"]


def _refuses_replays(store: NonceStore, now_s: int) -> None:
    first, second = _delivery(now_s), _delivery(now_s)
    verify(first, BODY, SECRET, nonces=store)
    with pytest.raises(ReplayedNonce):
        verify(first, BODY, SECRET, nonces=store)
    verify(second, BODY, SECRET, nonces=store)


def test_the_redis_store_refuses_replays_and_forgets_in_time(redis_url: str, now_s: int) -> None:
    with redis.Redis.from_url(redis_url) as client:
        _refuses_replays(_run_python("class RedisNonces")["RedisNonces"](client), now_s)
        assert all(0 < client.ttl(key) <= 310 for key in client.keys("euterpe:nonce:*"))


def test_the_sql_store_refuses_replays_and_forgets_in_time(now_s: int) -> None:
    connection = sqlite3.connect(":memory:")
    try:
        stores = _run_python("class SqlNonces")["SqlNonces"]
        connection.execute(stores.__doc__)
        _refuses_replays(stores(connection), now_s)
        assert stores(connection).seen("n" * 16, now=now_s + 400, expires_at=now_s + 800) is False
        assert connection.execute("select count(*) from webhook_nonces").fetchone() == (1,)
    finally:
        connection.close()


def test_the_curl_lines_reach_the_example_receiver(tmp_path: Path) -> None:
    require("curl")
    with running([sys.executable, str(EXAMPLES / "receiver.py")], [SECRET]) as receiver:
        status = _shell("curl -sS", tmp_path, EVENT_ID="evt_1", RECEIVER_URL=receiver.url)
        assert status == "204"
        assert receiver.next_line()["event_id"] == "evt_1"
        assert _shell("curl -sS", tmp_path, EVENT_ID="evt_2", RECEIVER_URL=receiver.url) == "401"


def test_the_page_names_the_limits_that_the_code_has() -> None:
    assert f"has {DEFAULT_DEADLINE_S:.0f} seconds" in PAGE
    assert f"at most {MAX_ANSWER_BYTES // 1024} KB" in PAGE
    assert f"headers of {MAX_HEAD_BYTES // 1024} KB" in PAGE
    assert f"Ports are {', '.join(map(str, sorted(DEFAULT_PORTS)[:2]))}" in PAGE
    assert sorted(DEFAULT_PORTS) == [80, 443, 8080, 8443]
    assert [name for name in webhooks.__all__ if name not in PAGE] == []
