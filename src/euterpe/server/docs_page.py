"""`/docs`: the OpenAPI document as one plain page. No script, nothing loaded from elsewhere, so it works offline."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final

import msgspec

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --accent: #7a4fbf; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; padding: .5rem .8rem; }
summary { cursor: pointer; } code, pre { font: 14px/1.45 ui-monospace, monospace; }
pre { background: var(--soft); padding: .6rem .8rem; overflow-x: auto; border-radius: 4px; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); padding: .25rem .6rem .25rem 0; }
.method { display: inline-block; min-width: 3.2rem; font-weight: 700; color: var(--accent); }
.scope { float: right; opacity: .7; }
"""


def docs_page(document: dict[str, Any]) -> bytes:
    info = document["info"]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width, initial-scale=1'>",
        f"<title>{escape(info['title'])} API</title><style>{_STYLE}</style>",
        f"<h1>{escape(info['title'])}</h1><p>{_text(info['description'])}</p>",
        "<p>For programs: <a href=/openapi.json>/openapi.json</a> (OpenAPI 3.1).</p>",
    ]
    for tag in document["tags"]:
        parts.append(f"<h2>{escape(tag['name'])}</h2>")
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation["tags"]:
                    parts.append(_operation(method.upper(), path, operation))
    parts.append("<h2>Types</h2>")
    parts += [_type(name, schema) for name, schema in sorted(document["components"]["schemas"].items())]
    return "".join(parts).encode()


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    scopes = [scope for need in operation["security"] for scope in need["key"]]
    parts = [
        f"<details id='{escape(operation['operationId'])}'><summary><span class=method>{method}</span> "
        f"<code>{escape(path)}</code> {escape(operation['summary'])}"
        f"<span class=scope>{escape(', '.join(scopes) or 'open')}</span></summary>",
        f"<p>{_text(operation['description'])}</p>",
    ]
    if parameters := operation.get("parameters"):
        rows = [(p["name"], p["in"], _schema(p["schema"]), p.get("description", "")) for p in parameters]
        parts.append(_table(("parameter", "in", "type", ""), rows))
    if body := operation.get("requestBody"):
        content = body["content"]["application/json"]
        parts.append(f"<p>Body: {_schema(content['schema'])}</p>")
        if "example" in content:
            parts.append(_example(content["example"]))
    rows = []
    for status, response in operation["responses"].items():
        media_type, content = next(iter(response["content"].items()))
        rows.append((status, media_type, _schema(content["schema"]), _text(response["description"])))
    parts.append(_table(("status", "media type", "type", ""), rows))
    for status, response in operation["responses"].items():
        content = response["content"].get("application/json", {})
        if "example" in content:
            parts.append(f"<p>Example of {status}:</p>{_example(content['example'])}")
    return "".join(parts) + "</details>"


def _type(name: str, schema: dict[str, Any]) -> str:
    required = set(schema.get("required", ()))
    rows = [
        (
            field,
            _schema(kind),
            "required" if field in required else _default(kind),
            escape(kind.get("description", "")),
        )
        for field, kind in schema.get("properties", {}).items()
    ]
    description = _text(schema.get("description", ""))
    table = _table(("field", "type", "", ""), rows) if rows else ""
    summary = f"<summary><code>{escape(name)}</code> {description}</summary>"
    return f"<details id='type-{escape(name)}'>{summary}{table}</details>"


def _default(schema: dict[str, Any]) -> str:
    return f"default {escape(_json(schema['default']))}" if "default" in schema else ""


def _schema(schema: dict[str, Any]) -> str:
    """A type in a few words, with links to the named ones."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rsplit("/", 1)[1])
        return f"<a href='#type-{name}'>{name}</a>"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_schema(kind) for kind in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(f"<code>{escape(_json(value))}</code>" for value in schema["enum"])
    if "prefixItems" in schema:
        return f"[{', '.join(map(_schema, schema['prefixItems']))}]"
    if schema.get("type") == "array":
        return f"list of {_schema(schema.get('items', {}))}"
    return escape(str(schema.get("format") or schema.get("type") or "any JSON"))


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{escape(name)}" for name in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{cell if i else f'<code>{escape(cell)}</code>'}" for i, cell in enumerate(row))
        for row in rows
    )
    return f"<table><tr>{head}{body}</table>"


def _example(value: Any) -> str:
    return f"<pre>{escape(msgspec.json.format(_json(value), indent=2))}</pre>"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _text(text: str) -> str:
    """Escaped, with `words` between backticks as code."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if i % 2 else piece for i, piece in enumerate(pieces))
