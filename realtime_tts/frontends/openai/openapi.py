"""The OpenAPI description of the HTTP API, generated from its types.

python -m realtime_tts.frontends.openai.openapi > openapi.json
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from realtime_tts import __version__
from realtime_tts.audio.format import Encoding
from realtime_tts.frontends.native.messages import SessionConfig
from realtime_tts.frontends.openai.chat_request import ChatRequest
from realtime_tts.frontends.openai.messages import (
    AllVoices,
    AudioModels,
    BatchResponse,
    DeletedVoice,
    ErrorBody,
    ModelEntry,
    ModelList,
    UploadedVoice,
)
from realtime_tts.frontends.openai.speech import SESSION_FIELDS, SpeechRequest

Json = dict[str, Any]

_REF = "#/components/schemas/{name}"
_BINARY: Json = {"type": "string", "format": "binary"}
_AUDIO: Mapping[str, Json] = {
    **{
        mime_type: {"schema": _BINARY}
        for mime_type in ("audio/mpeg", "audio/ogg", "audio/aac", "audio/flac", "audio/wav", "audio/pcm")
    },
    "text/event-stream": {"schema": {"type": "string"}},
}
_VOICE_FORM: Json = {
    "type": "object",
    "required": ["name", "consent", "audio"],
    "properties": {
        "name": {"type": "string"},
        "consent": {"type": "string", "description": "Who has agreed, in words."},
        "audio": {**_BINARY, "description": "1 to 60 s of wav, flac, ogg or mp3."},
        "ref_text": {"type": "string", "description": "The transcript of the recording."},
    },
}
_FIELDS = {
    "input": "The text to speak.",
    "model": "A model of GET /v1/models. Other names select the default model.",
    "voice": "A name from GET /v1/audio/voices, an alias, or a mix such as af_bella(2)+af_sky. Or an object with `id`.",
    "speaker": "Another name of `voice`.",
    "response_format": "The format of the audio. aac needs an extra on the server.",
    "sample_rate": "8000 to 48000 Hz; by default that of the model, 8000 for G.711.",
    "stream": "Whether audio is sent while it is made. Default: false for wav and flac, true for all others.",
    "stream_format": "audio: the bytes of the file. sse: events with base64, then one with the usage.",
    "speed": "0.25 to 4.",
    "language": "Auto, a name such as English, or a BCP-47 tag.",
    "instructions": "The manner of speaking, for models that follow it.",
    "text_filters": "What is not spoken: markdown, emoji, code, urls, tags. The server has a default.",
    "pronunciations": "From a word to a respelling, or between slashes to its IPA.",
    "split_granularity": "sentence, clause or none.",
    "initial_codec_chunk_frames": "Codec frames in the first packet; by default chosen from the load.",
    "continuity_threshold_ms": "The limit above which a gap counts.",
    "task_type": "CustomVoice, VoiceDesign or Base: refused if the model is of another type.",
    "ref_audio": "A recording whose voice is used, as a data URL or base64, for models that clone.",
    "ref_text": "The transcript of ref_audio.",
    "x_vector_only_mode": "Use the timbre of ref_audio alone.",
    "speaker_embedding": "A vector in place of ref_audio.",
    "seed": "The same seed, text and voice give the same audio.",
    "temperature": "Of sampling, for models that sample.",
    "top_k": "Of sampling.",
    "top_p": "Of sampling.",
    "repetition_penalty": "Of sampling.",
    "max_new_tokens": "The limit of codec frames for a sentence.",
}
_MODEL_QUERY = ("model", "query", "A model of GET /v1/models; by default the first.")
_SCHEDULER_QUERY = ("scheduler", "query", "The same model under another scheduler, where the server has one.")


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str
    summary: str
    ok: type[Struct] | Mapping[str, Json]
    """The type of the JSON response, or the content of another one."""
    ok_status: int = 200
    body: Mapping[str, Json] | None = None
    """The content of the request."""
    parameters: tuple[tuple[str, str, str], ...] = ()
    """Name, place (`path` or `query`) and description."""
    errors: tuple[int, ...] = field(default=(400, 401, 429))


def _json_of(schema: str) -> Json:
    return {"application/json": {"schema": {"$ref": _REF.format(name=schema)}}}


OPERATIONS = (
    Operation(
        "post",
        "/v1/audio/speech",
        "Speaks a text. The audio is sent while it is made; wav and flac, whose header has their length, at the end, "
        "unless `stream` is true.",
        _AUDIO,
        body=_json_of("Speech"),
        parameters=(_MODEL_QUERY, _SCHEDULER_QUERY),
        errors=(400, 401, 413, 415, 429, 500, 503),
    ),
    Operation(
        "post",
        "/v1/audio/speech/batch",
        "Speaks many texts. Each item is a whole file or an error. Fields beside `items` are defaults of all items.",
        BatchResponse,
        body=_json_of("SpeechBatch"),
        parameters=(_MODEL_QUERY, _SCHEDULER_QUERY),
        errors=(400, 401, 413, 415),
    ),
    Operation(
        "post",
        "/v1/chat/completions",
        "Answers a conversation with text, speech or both, if a model answers. protocol.md describes the response.",
        {
            "application/json": {"schema": {"type": "object", "description": "OpenAI's chat.completion."}},
            "text/event-stream": {"schema": {"type": "string", "description": "chat.completion.chunk events."}},
        },
        body=_json_of("ChatRequest"),
        errors=(400, 401, 404, 413, 415, 429, 500, 503),
    ),
    Operation(
        "get",
        "/v1/audio/voices",
        "Lists the voices of a model and their aliases, and those of all models.",
        AllVoices,
        parameters=(_MODEL_QUERY,),
        errors=(401, 404),
    ),
    Operation(
        "post",
        "/v1/audio/voices",
        "Uploads a recording as a voice, for models that clone voices.",
        UploadedVoice,
        ok_status=201,
        body={"multipart/form-data": {"schema": _VOICE_FORM}},
        errors=(400, 401, 409, 413, 415, 503, 507),
    ),
    Operation(
        "delete",
        "/v1/audio/voices/{name}",
        "Deletes an uploaded voice.",
        DeletedVoice,
        parameters=(("name", "path", "The voice."),),
        errors=(400, 401, 404),
    ),
    Operation(
        "get", "/v1/audio/models", "Lists the models, in the form that Open WebUI reads.", AudioModels, errors=(401,)
    ),
    Operation("get", "/v1/models", "Lists the models, the default one first.", ModelList, errors=(401,)),
    Operation(
        "get",
        "/v1/models/{name}",
        "Describes a model. OpenAI's names, such as tts-1, stand for the default model.",
        ModelEntry,
        parameters=(("name", "path", "The model."),),
        errors=(401, 404),
    ),
)


def openapi() -> Json:
    """OpenAPI 3.1 of the API under /v1, without the WebSocket, which asyncapi.json describes."""
    types = [
        SpeechRequest,
        SessionConfig,
        ChatRequest,
        ErrorBody,
        *(each.ok for each in OPERATIONS if isinstance(each.ok, type)),
    ]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    del schemas  # each is a reference to its component
    components |= _request_bodies(components.pop("SpeechRequest"), components.pop("SessionConfig"))
    paths: dict[str, Json] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "realtime_tts",
            "version": __version__,
            "description": "Speech over HTTP, in the form of OpenAI's API. protocol.md explains it in full.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:8000"}],
        "security": [{}, {"key": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "If the operator has configured API keys."}
            },
        },
    }


def _request_bodies(speech: Json, config: Json) -> Json:
    """A request has fields of its own, and those of `session.config` that mean the same over HTTP."""
    known = speech["properties"] | {n: schema for n, schema in config["properties"].items() if n in SESSION_FIELDS}
    fields = {name: _without_null(schema) for name, schema in known.items()}
    fields["response_format"]["enum"] = [*Encoding]
    for name, description in _FIELDS.items():
        fields[name]["description"] = description
    body = {"title": "Speech", "type": "object", "properties": fields, "required": speech["required"]}
    item = {"$ref": _REF.format(name="Speech")}
    defaults = {name: schema for name, schema in fields.items() if name not in ("input", "stream", "stream_format")}
    defaults["response_format"] = {**defaults["response_format"], "default": "wav"}
    batch = {
        "title": "SpeechBatch",
        "type": "object",
        "properties": {"items": {"type": "array", "items": item, "minItems": 1}, **defaults},
        "required": ["items"],
    }
    return {"Speech": body, "SpeechBatch": batch}


def _without_null(schema: Json) -> Json:
    """null is the same as an absent field: it selects the default."""
    options = [each for each in schema.get("anyOf", []) if each != {"type": "null"}]
    if not options:
        return dict(schema)
    return dict(options[0]) if len(options) == 1 else {"anyOf": options}


def _operation(operation: Operation) -> Json:
    ok = _json_of(operation.ok.__name__) if isinstance(operation.ok, type) else dict(operation.ok)
    responses: Json = {str(operation.ok_status): {"description": "Success.", "content": ok}}
    for status in operation.errors:
        responses[str(status)] = {"description": "An error.", "content": _json_of("ErrorBody")}
    described: Json = {"summary": operation.summary, "responses": responses}
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": dict(operation.body)}
    if operation.parameters:
        described["parameters"] = [
            {
                "name": name,
                "in": place,
                "required": place == "path",
                "description": description,
                "schema": {"type": "string"},
            }
            for name, place, description in operation.parameters
        ]
    return described


if __name__ == "__main__":
    json.dump(openapi(), sys.stdout, indent=1, ensure_ascii=False)
    sys.stdout.write("\n")
