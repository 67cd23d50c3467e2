"""Page /docs: the OpenAPI description as HTML, and the machine-readable descriptions beside it.

Rendered here, without a script: a renderer from npm would be larger than the whole demo page.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from importlib import resources
from typing import Any

import msgspec
from aiohttp import web

from realtime_tts.frontends.native.asyncapi import asyncapi
from realtime_tts.frontends.openai.openapi import openapi

Json = dict[str, Any]

DOCS_PATH, CSS_PATH, OPENAPI_PATH, ASYNCAPI_PATH = "/docs", "/docs.css", "/openapi.json", "/asyncapi.json"


def routes() -> list[web.RouteDef]:
    return [
        web.get(DOCS_PATH, _page),
        web.get(CSS_PATH, _css),
        web.get(OPENAPI_PATH, _openapi),
        web.get(ASYNCAPI_PATH, _asyncapi),
    ]


async def _page(_request: web.Request) -> web.Response:
    return web.Response(text=_html(), content_type="text/html")


async def _css(_request: web.Request) -> web.Response:
    return web.Response(text=_css_text(), content_type="text/css")


async def _openapi(_request: web.Request) -> web.Response:
    return web.Response(body=_openapi_json(), content_type="application/json")


async def _asyncapi(_request: web.Request) -> web.Response:
    return web.Response(body=_asyncapi_json(), content_type="application/json")


# Milliseconds each, in which no session would be served: made once.


@cache
def _css_text() -> str:
    return (resources.files("realtime_tts.server") / "docs.css").read_text("utf-8")


@cache
def _html() -> str:
    return html_page(openapi())


@cache
def _openapi_json() -> bytes:
    return msgspec.json.encode(openapi())


@cache
def _asyncapi_json() -> bytes:
    return msgspec.json.encode(asyncapi())


def html_page(description: Json) -> str:
    info = description["info"]
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(info["title"])}: HTTP API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/static/style.css">
<link rel="stylesheet" href="{CSS_PATH}">
<main class="docs">
<h1>{escape(info["title"])} {escape(info["version"])}: HTTP API</h1>
<p>{_text(info["description"])}</p>
<p>Machine-readable: <a href="{OPENAPI_PATH}">openapi.json</a>, and <a href="{ASYNCAPI_PATH}">asyncapi.json</a> of the
WebSocket. <a href="/">Demo page</a>.</p>
{"".join(_operations(description))}
<h2>Types</h2>
{"".join(_types(description))}
</main>
</html>
"""


def _operations(description: Json) -> Iterator[str]:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield f"<section><h2><code>{method.upper()} {escape(path)}</code></h2><p>{_text(operation['summary'])}</p>"
            if parameters := operation.get("parameters"):
                rows = [(each["name"], each["in"], each["description"]) for each in parameters]
                yield _table(("parameter", "in", ""), rows)
            for content_type, content in operation.get("requestBody", {}).get("content", {}).items():
                yield f"<h3>Request: {escape(content_type)}</h3>{_schema(content['schema'])}"
            for status, response in operation["responses"].items():
                if "ErrorBody" not in str(response):
                    yield f"<h3>{escape(status)}</h3><ul>{''.join(_contents(response['content']))}</ul>"
            errors = [status for status, each in operation["responses"].items() if "ErrorBody" in str(each)]
            yield f"<p>Errors: {', '.join(errors)}, as {_link('ErrorBody')}.</p></section>"


def _contents(content: Json) -> Iterator[str]:
    for content_type, each in content.items():
        yield f"<li>{escape(content_type)}: {_type(each['schema'])}</li>"


def _types(description: Json) -> Iterator[str]:
    for name, schema in description["components"]["schemas"].items():
        yield f'<section id="{escape(name)}"><h3>{escape(name)}</h3><p>{_text(schema.get("description", ""))}</p>'
        yield _schema(schema) + "</section>"


def _schema(schema: Json) -> str:
    if "properties" not in schema:
        return f"<p>{_type(schema)}</p>"
    required = schema.get("required", [])
    rows = [
        f"<tr><td><code>{escape(name)}</code>{' *' if name in required else ''}<td>{_type(each)}"
        f"<td>{_text(each.get('description', ''))}</tr>"
        for name, each in schema["properties"].items()
    ]
    return f"<table><tr><th>field (* required)<th>type<th></tr>{''.join(rows)}</table>"


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [f"<tr>{''.join(f'<td>{_text(cell)}' for cell in row)}</tr>" for row in rows]
    return f"<table><tr>{''.join(f'<th>{escape(cell)}' for cell in header)}</tr>{''.join(lines)}</table>"


def _type(schema: Json) -> str:
    """One type as HTML, such as `array of string`."""
    if "$ref" in schema:
        return _link(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        text = " | ".join(escape(str(each)) for each in schema["enum"])
    elif schema.get("type") == "array":
        text = f"array of {_type(schema['items'])}"
    elif isinstance(schema.get("additionalProperties"), dict):
        text = f"object of {_type(schema['additionalProperties'])}"
    else:
        text = escape(str(schema.get("format", schema.get("type", "any"))))
    return text + (f", default {escape(str(schema['default']))}" if schema.get("default") is not None else "")


def _link(name: str) -> str:
    return f'<a href="#{escape(name)}">{escape(name)}</a>'


def _text(text: str) -> str:
    """Escaped, with `code` marked."""
    parts = escape(" ".join(text.split())).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))
