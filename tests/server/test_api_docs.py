"""The page /docs: complete, escaped, and within the Content-Security-Policy."""

import re
from html.parser import HTMLParser

import aiohttp

from realtime_tts.frontends.native.asyncapi import asyncapi
from realtime_tts.frontends.openai.openapi import openapi
from realtime_tts.server.api_docs import html_page
from tests.serving import tone_server


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.ids: set[str] = set()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("href", "src"):
                self.targets.add(value or "")
            if name == "id":
                self.ids.add(value or "")


async def test_the_page_and_both_descriptions_are_served_and_every_link_works() -> None:
    async with tone_server() as (url, _server), aiohttp.ClientSession() as client:
        async with client.get(f"{url}/docs") as response:
            assert (response.status, response.content_type) == (200, "text/html")
            links = Links()
            links.feed(await response.text())
        for target in links.targets:
            if target.startswith("#"):
                assert target.removeprefix("#") in links.ids
                continue
            if target == "data:,":
                continue
            assert target.startswith("/"), "nothing of another host"
            async with client.get(url + target) as response:
                assert response.status == 200, target
        for path, expected in (("/openapi.json", openapi()), ("/asyncapi.json", asyncapi())):
            async with client.get(url + path) as response:
                assert await response.json() == expected, path
    assert "script" not in links.tags
    assert {"/openapi.json", "/asyncapi.json"} <= links.targets


def test_every_operation_and_field_is_on_the_page() -> None:
    description = openapi()
    page = html_page(description)
    for path, methods in description["paths"].items():
        for method in methods:
            assert f"{method.upper()} {path}" in page
    for name in description["components"]["schemas"]["Speech"]["properties"]:
        assert f"<code>{name}</code>" in page


def test_text_of_the_description_is_escaped() -> None:
    description = openapi()
    description["info"]["title"] = "<script>alert(1)</script>"
    description["paths"]["/v1/models"]["get"]["summary"] = "a < b & `c<d`"
    page = html_page(description)
    assert "<script" not in page
    assert "a &lt; b &amp; <code>c&lt;d</code>" in page
    assert not re.search(r"style=|onclick=", page), "the policy forbids inline styles and handlers"
