"""Health, readiness, metrics, and a description of the API that is true."""

from __future__ import annotations

import asyncio
import re
import socket
from typing import Any

import httpx
import msgspec
import pytest

from euterpe.server.http.limits import Limits
from euterpe.server.http.uvicorn_server import serve
from tests.server.plane import METRICS, Plane, anonymous, running_plane


async def test_it_is_alive_and_ready(plane: Plane) -> None:
    async with anonymous(plane.base_url) as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()) == (200, {"status": "ready", "checks": {"store": "ok"}, "failing": []})


async def test_readiness_names_what_fails_and_not_where_it_is(sqlite_url: str) -> None:
    async def broken() -> None:
        raise ConnectionError("redis://:hunter2@10.0.0.1 refused")

    async def stuck() -> None:
        await asyncio.Event().wait()

    async def fine() -> None:
        return None

    checks: dict[str, Any] = {"redis": broken, "disk": stuck, "moon": fine}
    async with (
        running_plane(sqlite_url, Limits(ready_timeout_s=0.1), checks) as plane,
        anonymous(plane.base_url) as client,
    ):
        answer = await client.get("/readyz")
        assert answer.status_code == 503
        body = answer.json()
        assert body["failing"] == ["redis", "disk"]
        assert (body["checks"]["store"], body["checks"]["moon"]) == ("ok", "ok")
        assert "hunter2" not in answer.text
        assert "10.0.0.1" not in answer.text


async def test_without_its_database_it_is_alive_but_not_ready_and_says_try_again(plane: Plane) -> None:
    async with plane.client() as client:
        assert (await client.get("/jobs")).status_code == 200
        await plane.store.close()
        assert (await client.get("/healthz")).status_code == 200
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()["failing"]) == (503, ["store"])
        for answer in (
            await client.get("/jobs"),
            await client.post("/jobs", json={"type": "t"}),
            await client.post("/internal/worker/claim", json={"worker_id": "w", "streams": ["q"], "max_wait_ms": 0}),
        ):
            assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable"), answer.text
            assert answer.headers["retry-after"] == "1"
        await plane.store.open()
        assert (await client.get("/jobs")).status_code == 200


async def test_a_draining_process_is_not_ready(plane: Plane) -> None:
    async with anonymous(plane.base_url) as client:
        plane.app.drain()
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()["failing"]) == (503, ["api"])


async def test_metrics_are_as_they_were_rendered(plane: Plane) -> None:
    async with anonymous(plane.base_url) as client:
        answer = await client.get("/metrics")
        assert (answer.content, answer.headers["content-type"]) == (METRICS, "text/plain; version=0.0.4; charset=utf-8")


async def test_an_address_that_is_taken_is_an_error_and_not_the_end_of_the_process(plane: Plane) -> None:
    with pytest.raises(OSError, match="in use"):
        await serve(plane.app, port=plane.port)


async def test_openapi_describes_every_route_with_its_key(plane: Plane) -> None:
    async with anonymous(plane.base_url) as client:
        document = (await client.get("/openapi.json")).json()
    assert document["openapi"] == "3.1.0"
    described = {(path, method.upper()) for path, methods in document["paths"].items() for method in methods}
    assert described == {(route.path, route.method) for route in plane.app.routes}
    for route in plane.app.routes:
        operation = document["paths"][route.path][route.method.lower()]
        assert operation["security"] == ([] if route.scope is None else [{"key": [route.scope]}])
        assert ("401" in operation["responses"]) == (route.scope is not None)


def references(node: Any) -> set[str]:
    if isinstance(node, dict):
        own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*(references(value) for value in node.values()))
    if isinstance(node, list):
        return set().union(*(references(value) for value in node))
    return set()


async def test_every_reference_in_openapi_leads_somewhere(plane: Plane) -> None:
    async with anonymous(plane.base_url) as client:
        document = (await client.get("/openapi.json")).json()
    there = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references(document) <= there
    assert references(document)


async def test_every_example_is_what_its_type_says(plane: Plane) -> None:
    shown = 0
    for route in plane.app.routes:
        if route.example is not None:
            msgspec.json.decode(msgspec.json.encode(route.example), type=route.takes)
            shown += 1
        for reply in route.replies.values():
            if reply.example is not None:
                msgspec.convert(reply.example, reply.types[0])
                known = set(reply.types[0].__struct_fields__)
                assert set(reply.example) <= known, route.path
                shown += 1
    assert shown >= 25


async def test_the_docs_page_is_whole_by_itself(plane: Plane) -> None:
    async with anonymous(plane.base_url) as client:
        answer = await client.get("/docs")
    page = answer.text
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    for route in plane.app.routes:
        assert f"<code>{route.path}</code>" in page
    assert "<script" not in page
    assert re.findall(r"(?:src|href)=['\"]?(?:https?:)?//", page) == []
    assert "url(" not in page
    targets = set(re.findall(r"href='#([^']+)'", page))
    assert targets <= set(re.findall(r"id='([^']+)'", page))


async def test_answers_say_nothing_about_the_server(client: httpx.AsyncClient) -> None:
    assert "server" not in (await client.get("/jobs")).headers


async def test_an_answer_does_not_wait_for_the_acknowledgement_of_its_head(sqlite_url: str) -> None:
    """On asyncio's own loop, as here. With Nagle's delay every answer but the first few takes more than 40 ms."""
    async with running_plane(sqlite_url) as plane, anonymous(plane.base_url) as client:
        await client.get("/healthz")
        (connection,) = plane.connections._open
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
