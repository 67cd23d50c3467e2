"""The OpenAPI description: up to date, complete, and in agreement with what the server accepts and sends."""

import json
from pathlib import Path
from typing import Any

import jsonschema
from aiohttp import hdrs

from realtime_tts.frontends.openai.openapi import openapi
from tests.frontends.openai.harness import serving

ROOT = Path(__file__).parents[3]
DESCRIPTION = openapi()


def check(body: object, schema: str) -> None:
    whole = {"$ref": f"#/components/schemas/{schema}", "components": DESCRIPTION["components"]}
    jsonschema.Draft202012Validator(whole).validate(body)


def test_the_committed_file_is_up_to_date() -> None:
    assert json.loads((ROOT / "openapi.json").read_text("utf-8")) == DESCRIPTION, (
        "python -m realtime_tts.frontends.openai.openapi > openapi.json"
    )


def test_every_reference_resolves() -> None:
    references = {part.split('"')[0] for part in json.dumps(DESCRIPTION).split('"$ref": "')[1:]}
    assert len(references) > 10
    for reference in references:
        target: Any = DESCRIPTION
        for name in reference.removeprefix("#/").split("/"):
            target = target[name]  # raises KeyError for a name that does not exist


async def test_every_route_of_the_http_api_is_described_and_no_other() -> None:
    described = {(method.upper(), path) for path, methods in DESCRIPTION["paths"].items() for method in methods}
    async with serving() as served:
        routes = served.server.app.router.routes()
        found = {(route.method, route.resource.canonical) for route in routes if route.resource is not None}
    other = {"/v1/audio/speech/stream", "/v1/realtime/tokens", "/v1/demo"}
    api = {(method, path) for method, path in found if path.startswith("/v1/") and method != hdrs.METH_HEAD}
    assert described == {(method, path) for method, path in api if path not in other}


async def test_responses_have_the_described_form() -> None:
    async with serving() as served:
        check(await served.get("/v1/audio/voices"), "AllVoices")
        check(await served.get("/v1/audio/models"), "AudioModels")
        check(await served.get("/v1/models"), "ModelList")
        check(await served.get("/v1/models/tts-1"), "ModelEntry")
        _status, error = await served.refused(input="")
        check({"error": error}, "ErrorBody")
        body = {"items": [{"input": "Hello."}, {"input": ""}], "voice": {"id": "nova"}}
        check(body, "SpeechBatch")
        async with served.http.post(f"{served.url}/v1/audio/speech/batch", json=body) as response:
            check(await response.json(), "BatchResponse")


async def test_the_schema_accepts_the_requests_that_the_server_accepts() -> None:
    validator = jsonschema.Draft202012Validator(
        {"$ref": "#/components/schemas/Speech", "components": DESCRIPTION["components"]}
    )
    async with serving() as served:
        for body, valid in (
            ({"input": "Hello."}, True),
            ({"input": "Hello.", "voice": "nova", "speed": 1.5, "text_filters": ["emoji"]}, True),
            ({"input": "Hello.", "voice": {"id": "nova"}, "response_format": "opus", "stream": True}, True),
            ({"voice": "nova"}, False),
            ({"input": 7}, False),
            ({"input": "Hello.", "voice": 7}, False),
            ({"input": "Hello.", "response_format": "tape"}, False),
            ({"input": "Hello.", "stream_format": "video"}, False),
        ):
            assert validator.is_valid(body) is valid, body
            assert ((await served.ask(**body))[0] == 200) is valid, body
