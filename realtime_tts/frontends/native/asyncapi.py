"""The state diagram and the AsyncAPI description of the protocol, generated from its table and types.

python -m realtime_tts.frontends.native.asyncapi > asyncapi.json
"""

import json
import sys
from typing import Any

import msgspec

from realtime_tts import __version__
from realtime_tts.frontends.native.messages import CLIENT_MESSAGES, PROTOCOL, SERVER_MESSAGES, STREAM_PATH
from realtime_tts.session import inputs
from realtime_tts.session.inputs import SessionInput
from realtime_tts.session.protocol import RECEIVE, State

_REF = "#/components/schemas/{name}"
_QUERY = {
    "type": "object",
    "properties": {
        "token": {"type": "string", "description": "Single-use token, for browsers, in place of an API key."},
        "scheduler": {"type": "string", "description": "A scheduler of GET /v1/demo; by default the first."},
        "model": {"type": "string", "description": "A model of GET /v1/models; by default the first."},
    },
}


_TYPES: dict[type[SessionInput], str] = {  # a `Conversation` is for other front ends
    inputs.Configure: "session.config",
    inputs.Text: "input.text",
    inputs.Audio: "input.audio",
    inputs.Image: "input.image",
    inputs.Flush: "input.flush",
    inputs.Commit: "input.commit",
    inputs.Done: "input.done",
    inputs.Cancel: "input.cancel",
    inputs.PlaybackReport: "playback.report",
    inputs.KeepAlive: "session.keepalive",
    inputs.Close: "session.close",
}


def state_diagram() -> str:
    """Mermaid diagram of the states and the messages between them.  Other messages are rejected."""
    edges: dict[tuple[State, State], list[str]] = {}
    for (state, item), following in RECEIVE.items():
        if item in _TYPES:
            edges.setdefault((state, following), []).append(_TYPES[item])
    lines = ["stateDiagram-v2", "    [*] --> new: connected"]
    for (state, following), messages in edges.items():
        lines.append(f"    {state} --> {following}: {', '.join(sorted(messages))}")
    lines += [
        f"    {State.NEW} --> {State.DRAINING}: session.expiring sent",
        f"    {State.OPEN} --> {State.DRAINING}: session.expiring sent",
        f"    {State.DRAINING} --> {State.CLOSED}: all sent",
        f"    {State.CLOSING} --> {State.CLOSED}: all sent",
        f"    {State.CLOSED} --> [*]",
    ]
    return "\n".join(lines)


def asyncapi() -> dict[str, Any]:
    """AsyncAPI 3.0 of the WebSocket endpoint, from the server's point of view."""
    types = [*CLIENT_MESSAGES.values(), *SERVER_MESSAGES.values()]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    del schemas  # each is a reference to its component
    for kind, message in CLIENT_MESSAGES.items():
        component = components[message.__name__]
        component["properties"] = {"type": {"const": kind}, **component["properties"]}
        component["required"] = ["type", *component.get("required", [])]
    messages = {
        kind: {"name": kind, "payload": {"$ref": _REF.format(name=message.__name__)}, **_summary(message)}
        for kind, message in (CLIENT_MESSAGES | SERVER_MESSAGES).items()
    }
    messages["audio"] = {
        "name": "audio",
        "contentType": "application/octet-stream",
        "summary": "A binary frame: audio of the sentence that the last audio.start began, after a header of 16 bytes "
        "if its frame_header is true.  From a client: audio of a turn that is answered, as in input.audio.",
    }
    channel = "#/channels/stream"
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "realtime_tts",
            "version": __version__,
            "description": "Text in, speech out, over one WebSocket.  protocol.md explains the messages, and those of "
            "another dialect for clients of SGLang-Omni.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"local": {"host": "127.0.0.1:8000", "protocol": "ws"}},
        "channels": {
            "stream": {
                "address": STREAM_PATH,
                "bindings": {"ws": {"query": _QUERY, "bindingVersion": "0.1.0"}},
                "description": f"The subprotocol is {PROTOCOL}; it may be left out.",
                "messages": {kind: {"$ref": f"#/components/messages/{kind}"} for kind in messages},
            }
        },
        "operations": {
            "fromClient": {
                "action": "receive",
                "channel": {"$ref": channel},
                "messages": [{"$ref": f"{channel}/messages/{kind}"} for kind in [*CLIENT_MESSAGES, "audio"]],
            },
            "toClient": {
                "action": "send",
                "channel": {"$ref": channel},
                "messages": [{"$ref": f"{channel}/messages/{kind}"} for kind in [*SERVER_MESSAGES, "audio"]],
            },
        },
        "components": {"messages": messages, "schemas": components},
    }


def _summary(message: type) -> dict[str, str]:
    documentation = " ".join((message.__doc__ or "").split())
    return {"summary": documentation} if documentation else {}


if __name__ == "__main__":
    json.dump(asyncapi(), sys.stdout, indent=1, ensure_ascii=False)
    sys.stdout.write("\n")
