"""The OpenAPI 3.1 document, made from the route table and the very types that decode and encode.

There is nothing to keep in step by hand: a field that is not in a type is neither accepted nor told.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from euterpe.model.accounts import Scope
from euterpe.server.http.problems import Problem
from euterpe.server.http.router import AnyRoute, ReplySpec

REF: Final = "#/components/schemas/{name}"
INTRODUCTION: Final = (
    "A durable job queue over HTTP. Submit jobs and look at them with a key of scope `submit` or `read`; "
    "run them with a key of scope `worker`. Errors are problem documents (RFC 9457) with a `code`."
)
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_HEADER_DESCRIPTIONS: Final = {
    "Idempotency-Key": ("Makes the request safe to repeat: the same key gets the first answer.", 256),
    "traceparent": (
        "The W3C trace context that the job's spans continue. A broken one is ignored.",
        None,
    ),
    "If-Match": ("The version that was seen, in quotes.", 256),
    "ETag": ("The version that is there now, in quotes.", None),
    "Last-Event-ID": ("The id of the last event that arrived: what changed since then comes first.", 18),
    "Idempotency-Replayed": ("`true`: this is the stored answer of an earlier request with the same key.", None),
    "Location": ("Where the job is.", None),
    "Retry-After": ("Seconds to wait before the next try.", None),
}
_EVERY_ROUTE: Final = {422: "Some input is wrong; `pointer` says where.", 400: "Not JSON, or not a valid query."}
_WITH_KEY: Final = {
    401: "No key, or one that is unknown, expired or revoked.",
    403: "The key lacks the scope.",
    429: "Too many requests with this key; see Retry-After.",
    503: "The database does not answer; see Retry-After.",
}
_WITH_BODY: Final = {
    408: "The body took too long.",
    413: "The body, payload or result is over its limit.",
    415: "The body has a Content-Encoding.",
}


def openapi_document(routes: Sequence[AnyRoute], version: str) -> dict[str, Any]:
    types = _types(routes)
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    schema_of = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schema_of, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Euterpe", "version": version, "description": INTRODUCTION, "license": {"name": "MIT"}},
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": f"Scopes: {', '.join(Scope)}"}
            },
        },
    }


def _types(routes: Sequence[AnyRoute]) -> list[Any]:
    wanted: dict[str, Any] = {repr(Problem): Problem}
    for route in routes:
        for kind in (route.takes, *(kind for reply in route.replies.values() for kind in reply.types)):
            wanted[repr(kind)] = kind
    return list(wanted.values())


def _operation(route: AnyRoute, schema_of: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "tags": [route.tag],
        "security": [] if route.scope is None else [{"key": [str(route.scope)]}],
        "responses": _responses(route, schema_of),
    }
    needs = "Open to everybody." if route.scope is None else f"Needs scope `{route.scope}`."
    operation["description"] = f"{route.description} {needs}".strip()
    parameters = _parameters(route, components)
    if parameters:
        operation["parameters"] = parameters
    if route.has_body:
        content: dict[str, Any] = {"schema": schema_of[repr(route.takes)]}
        if route.example is not None:
            content["example"] = route.example
        required = any(field.required for field in msgspec.structs.fields(route.takes))
        operation["requestBody"] = {"required": required, "content": {"application/json": content}}
    return operation


def _operation_id(route: AnyRoute) -> str:
    words = re.sub(r"[{}]", "", route.path).strip("/").replace(".", "_").replace("/", "_")
    return f"{route.method.lower()}_{words}"


def _parameters(route: AnyRoute, components: dict[str, Any]) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "format": "uuid"}}
        for name in _PARAMETER.findall(route.path)
    ]
    if route.method == "GET" and route.takes.__struct_fields__:
        properties = components[route.takes.__name__]["properties"]
        parameters += [
            {"name": name, "in": "query", "required": False, "schema": _in_query(schema)}
            for name, schema in properties.items()
        ]
    for name in route.request_headers:
        description, limit = _HEADER_DESCRIPTIONS[name]
        schema: dict[str, Any] = {"type": "string"}
        if limit is not None:
            pattern = "^[0-9]+$" if name == "Last-Event-ID" else "^[!-~]+$"
            schema |= {"minLength": 1, "maxLength": limit, "pattern": pattern}
        parameters.append(
            {"name": name, "in": "header", "required": False, "description": description, "schema": schema}
        )
    return parameters


def _in_query(schema: dict[str, Any]) -> dict[str, Any]:
    """There is no way to write null in a query; an empty value counts as none."""
    kinds = [kind for kind in schema.get("anyOf", [schema]) if kind != {"type": "null"}]
    return {"anyOf": [*kinds, {"enum": [""]}]}


def _responses(route: AnyRoute, schema_of: dict[str, Any]) -> dict[str, Any]:
    responses = {str(status): _response(reply, schema_of) for status, reply in route.replies.items()}
    problems = dict(route.problems)
    if route.scope is not None:
        problems = _WITH_KEY | problems
    if route.method != "GET":
        problems = _WITH_BODY | problems
    for status, description in sorted((_EVERY_ROUTE | problems).items()):
        if str(status) not in responses:
            responses[str(status)] = _problem(status, description, schema_of)
    return dict(sorted(responses.items()))


def _response(reply: ReplySpec, schema_of: dict[str, Any]) -> dict[str, Any]:
    schemas = [schema_of[repr(kind)] for kind in reply.types] or [{"type": "string"}]
    content: dict[str, Any] = {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}
    if reply.example is not None:
        content["example"] = reply.example
    response: dict[str, Any] = {"description": reply.description, "content": {reply.media_type: content}}
    if reply.headers:
        response["headers"] = {name: _header(name) for name in reply.headers}
    return response


def _problem(status: int, description: str, schema_of: dict[str, Any]) -> dict[str, Any]:
    example = {"type": "urn:euterpe:problem:...", "title": HTTPStatus(status).phrase, "status": status, "code": "..."}
    response: dict[str, Any] = {
        "description": description,
        "content": {"application/problem+json": {"schema": schema_of[repr(Problem)], "example": example}},
    }
    if status in (429, 503):
        response["headers"] = {"Retry-After": _header("Retry-After")}
    return response


def _header(name: str) -> dict[str, Any]:
    return {"description": _HEADER_DESCRIPTIONS[name][0], "schema": {"type": "string"}}
