"""The descriptions for machines say what the server does: they are made from what it runs by."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from realtime_tts.frontends.native.asyncapi import asyncapi, state_diagram
from realtime_tts.frontends.native.messages import CLIENT_MESSAGES, SERVER_MESSAGES, encode
from realtime_tts.session.protocol import State
from tests.session.harness import DONE, STREAM, Harness

ROOT = Path(__file__).parents[3]
DESCRIPTION = asyncapi()


def schema_of(kind: str) -> dict[str, Any]:
    reference = DESCRIPTION["components"]["messages"][kind]["payload"]["$ref"]
    return {"$ref": reference, "components": DESCRIPTION["components"]}


def accepts(message: dict[str, Any]) -> bool:
    return jsonschema.Draft202012Validator(schema_of(message["type"])).is_valid(message)


def test_the_committed_file_is_the_one_that_is_made() -> None:
    assert json.loads((ROOT / "asyncapi.json").read_text("utf-8")) == DESCRIPTION, (
        "python -m realtime_tts.frontends.native.asyncapi > asyncapi.json"
    )


def test_the_diagram_on_the_page_is_the_one_that_is_made() -> None:
    assert f"```mermaid\n{state_diagram()}\n```" in (ROOT / "protocol.md").read_text("utf-8")


def test_the_diagram_draws_every_state_and_every_message() -> None:
    diagram = state_diagram()
    assert all(f" {state}" in diagram for state in State)
    assert all(kind in diagram for kind in CLIENT_MESSAGES)


def test_every_message_is_described_and_every_reference_leads_somewhere() -> None:
    assert set(DESCRIPTION["components"]["messages"]) == {*CLIENT_MESSAGES, *SERVER_MESSAGES, "audio"}
    references = {part.split('"')[0] for part in json.dumps(DESCRIPTION).split('"$ref": "')[1:]}
    assert len(references) > 40
    for reference in references:
        place: Any = DESCRIPTION
        for name in reference.removeprefix("#/").split("/"):
            place = place[name]


@pytest.mark.parametrize(
    ("message", "is_one"),
    [
        ({"type": "input.text", "text": "Hello."}, True),
        ({"type": "input.text"}, False),
        ({"type": "input.done", "text": "Hello."}, True),
        ({"type": "input.cancel", "playback_offset_ms": 20.5, "context_id": None}, True),
        ({"type": "session.config", "voice": None, "speed": 1.2, "text_filters": ["markdown"]}, True),
        ({"type": "session.config", "speed": "fast"}, False),
        ({"type": "playback.report"}, False),
    ],
)
def test_a_client_s_message_is_accepted_by_its_schema_as_by_the_server(message: dict[str, Any], is_one: bool) -> None:
    assert accepts(message) is is_one
    harness = Harness()
    harness.client(STREAM, message)
    refused = [each for each in harness.sent if encode(each).startswith(b'{"type":"error","code":"invalid_message"')]
    assert bool(refused) is not is_one


def test_what_the_server_says_is_accepted_by_its_schema() -> None:
    harness = Harness()
    harness.client({**STREAM, "word_timestamps": True, "pronunciations": {"SQL": "sequel"}})
    harness.text("Hello there. And more of it. 🎉\n")
    harness.complete(harness.submitted[0])
    harness.client(DONE, {"type": "input.cancel"}, {"type": "nonsense"}, {"type": "session.close"})
    said = [msgspec.json.decode(encode(each)) for each in harness.sent if isinstance(each, msgspec.Struct)]
    assert len({message["type"] for message in said}) >= 8
    for message in said:
        jsonschema.validate(message, schema_of(message["type"]))
