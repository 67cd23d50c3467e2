"""The AsyncAPI description and the state diagram: up to date, complete, and in agreement with the server."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec

from realtime_tts.frontends.native.asyncapi import asyncapi, state_diagram
from realtime_tts.frontends.native.messages import CLIENT_MESSAGES, SERVER_MESSAGES, ServerError, encode
from realtime_tts.session.protocol import State
from tests.session.harness import DONE, STREAM, Harness

ROOT = Path(__file__).parents[3]
DESCRIPTION = asyncapi()


def schema_of(kind: str) -> dict[str, Any]:
    reference = DESCRIPTION["components"]["messages"][kind]["payload"]["$ref"]
    return {"$ref": reference, "components": DESCRIPTION["components"]}


def accepts(message: dict[str, Any]) -> bool:
    return jsonschema.Draft202012Validator(schema_of(message["type"])).is_valid(message)


def test_the_committed_file_is_up_to_date() -> None:
    assert json.loads((ROOT / "asyncapi.json").read_text("utf-8")) == DESCRIPTION, (
        "python -m realtime_tts.frontends.native.asyncapi > asyncapi.json"
    )


def test_the_diagram_in_protocol_md_is_up_to_date() -> None:
    assert f"```mermaid\n{state_diagram()}\n```" in (ROOT / "protocol.md").read_text("utf-8")


def test_the_diagram_shows_every_state_and_message() -> None:
    diagram = state_diagram()
    assert all(f" {state}" in diagram for state in State)
    assert all(kind in diagram for kind in CLIENT_MESSAGES)


def test_every_message_is_described_and_every_reference_resolves() -> None:
    assert set(DESCRIPTION["components"]["messages"]) == {*CLIENT_MESSAGES, *SERVER_MESSAGES, "audio"}
    references = {part.split('"')[0] for part in json.dumps(DESCRIPTION).split('"$ref": "')[1:]}
    assert len(references) > 40
    for reference in references:
        target: Any = DESCRIPTION
        for name in reference.removeprefix("#/").split("/"):
            target = target[name]  # raises KeyError for a name that does not exist


def test_the_schema_accepts_the_client_messages_that_the_server_accepts() -> None:
    valid: list[dict[str, Any]] = [
        {"type": "input.text", "text": "Hello."},
        {"type": "input.done", "text": "Hello."},
        {"type": "input.cancel", "playback_offset_ms": 20.5, "context_id": None},
        {"type": "input.commit", "commit_id": "a", "context_id": None},
        {"type": "session.config", "voice": None, "speed": 1.2, "text_filters": ["markdown"]},
    ]
    invalid: list[dict[str, Any]] = [
        {"type": "input.text"},
        {"type": "session.config", "speed": "fast"},
        {"type": "input.commit", "commit_id": 7},
        {"type": "playback.report"},
    ]
    for message in valid + invalid:
        assert accepts(message) is (message in valid), message
        harness = Harness()
        harness.client(STREAM, message)
        codes = [error.code for error in harness.of(ServerError)]
        assert ("invalid_message" in codes) is (message in invalid), message


def test_the_schema_accepts_the_messages_of_the_server() -> None:
    harness = Harness()
    harness.client({**STREAM, "word_timestamps": True, "pronunciations": {"SQL": "sequel"}})
    harness.text("Hello there. And more of it. 🎉\n")
    harness.complete(harness.submitted[0])
    commit = {"type": "input.commit", "commit_id": "a"}
    harness.client(commit, DONE, {"type": "input.cancel"}, {"type": "nonsense"}, {"type": "session.close"})
    sent = [msgspec.json.decode(encode(each)) for each in harness.sent if isinstance(each, msgspec.Struct)]
    assert len({message["type"] for message in sent}) >= 9
    for message in sent:
        jsonschema.validate(message, schema_of(message["type"]))
