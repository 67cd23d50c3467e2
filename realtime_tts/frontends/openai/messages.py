"""The JSON bodies of the HTTP API as types: requests, responses and errors."""

from typing import Literal

import msgspec
from aiohttp import web
from msgspec import UNSET, Struct, UnsetType


def json_response(body: Struct, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json")


# -- Batches ----------------------------------------------------------------------------------------------------------


class BatchSuccess(Struct, frozen=True, kw_only=True, tag_field="status", tag="success"):
    index: int
    audio_data: str
    """The whole file in base64."""
    media_type: str


class BatchFailure(Struct, frozen=True, kw_only=True, tag_field="status", tag="error"):
    index: int
    error: str
    code: str
    param: str | None
    """The field that is wrong."""


class BatchResponse(Struct, frozen=True, kw_only=True):
    id: str
    results: tuple[BatchSuccess | BatchFailure, ...]
    total: int
    succeeded: int
    failed: int


# -- Voices -----------------------------------------------------------------------------------------------------------


class VoiceEntry(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    language: str
    """A BCP-47 tag; `und` for an uploaded voice."""
    uploaded: bool
    alias_of: str | UnsetType = UNSET
    """The voice, or the mix of voices, that this further name stands for."""
    created_at: int | UnsetType = UNSET
    """Unix time in seconds, of an uploaded voice."""
    duration_s: float | UnsetType = UNSET


class VoiceListing(Struct, frozen=True, kw_only=True):
    """The voices of one model."""

    model: str
    default: str | None
    voices: tuple[VoiceEntry, ...]
    """Of the model, uploaded ones, and aliases."""
    aliases: dict[str, str]
    """The aliases, and the voice that each stands for."""


class AllVoices(VoiceListing, frozen=True, kw_only=True):
    """The voices of the default model or of `?model=NAME`, and under `models` those of all."""

    models: tuple[VoiceListing, ...]


class UploadedVoice(Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["audio.voice"] = "audio.voice"
    name: str
    type: Literal["audio_sample"] = "audio_sample"
    created_at: int
    duration_s: float


class DeletedVoice(Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["audio.voice.deleted"] = "audio.voice.deleted"
    deleted: bool


# -- Models -----------------------------------------------------------------------------------------------------------


class ModelEntry(Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    scheduler: str
    default: bool
    answers: bool
    """Whether it answers conversations: then it has /v1/chat/completions, and no /v1/audio/speech."""
    input_modalities: tuple[str, ...]
    """text; for a model that answers perhaps audio and image."""


class ModelList(Struct, frozen=True, kw_only=True):
    object: Literal["list"]
    data: tuple[ModelEntry, ...]


class AudioModel(Struct, frozen=True, kw_only=True):
    id: str
    name: str


class AudioModels(Struct, frozen=True, kw_only=True):
    models: tuple[AudioModel, ...]


# -- Errors -----------------------------------------------------------------------------------------------------------


class ErrorFields(Struct, frozen=True, kw_only=True):
    message: str
    type: Literal["invalid_request_error", "rate_limit_error", "server_error"]
    param: str | None
    """The field that is wrong."""
    code: str


class ErrorBody(Struct, frozen=True, kw_only=True):
    error: ErrorFields
