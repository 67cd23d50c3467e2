"""Routes in the shapes of OpenAI's API: speech, models and voices, through the same sessions and engines."""

import secrets
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from aiohttp import web

from realtime_tts.clock import unix_time_s
from realtime_tts.engine.api import ModelInfo
from realtime_tts.errors import ModelNotFound, RealtimeTTSError
from realtime_tts.frontends.engines import Engines
from realtime_tts.frontends.openai.batch import BatchItem, Item, ignored_fields, results_in_order, split_batch
from realtime_tts.frontends.openai.batch import respond as respond_to_batch
from realtime_tts.frontends.openai.messages import AudioModel, AudioModels, ModelEntry, ModelList, json_response
from realtime_tts.frontends.openai.request_body import deadline, read_json_body
from realtime_tts.frontends.openai.speech import Fields, Speech, decode_fields, parse_speech, respond
from realtime_tts.frontends.openai.voices import VoicesApi
from realtime_tts.session.frontend import FrontEnd
from realtime_tts.session.runner import SessionRunner
from realtime_tts.voices.store import VoiceStore

OPENAI_MODELS = frozenset({"tts-1", "tts-1-hd", "gpt-4o-mini-tts", "gpt-4o-mini-tts-2025-12-15"})
"""Names that the default model also has: clients of OpenAI's API look them up."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    max_input_chars: int = 16_384
    """Four times OpenAI's: about 17 minutes of speech."""
    max_whole_chars: int = 4096
    """For responses that are kept until they are complete, such as a wav with its size in front."""
    max_batch_items: int = 100
    max_batch_chars: int = 32_768
    """Of all items together: about 34 minutes of speech, 100 MB as wav."""
    max_batch_body_bytes: int = 4 * 1024 * 1024
    batch_concurrency: int = 4
    """Items of one batch that are spoken at a time."""
    text_filters: tuple[str, ...] = ("markdown",)
    """Of requests that set none: chat clients send the markdown of a model's answer, and cannot ask for a filter."""
    max_body_bytes: int = 256 * 1024
    """Of a request for speech; if a model clones voices, a recording may be added."""
    max_uploads: int = 4
    """At once: each may hold a recording in memory."""
    body_timeout_s: float = 60.0
    """For a request to arrive."""
    write_timeout_s: float = 30.0
    """For the end of a response to be read, beyond its duration."""


class OpensSession(Protocol):
    def __call__(
        self, request: web.Request, front_end: FrontEnd, *, model: str | None = None, session_id: str | None = None
    ) -> AbstractAsyncContextManager[SessionRunner]:
        """A session on the server, ready to `run`.  Raises a `RealtimeTTSError` if the server refuses it."""
        ...


class HttpApi:
    def __init__(
        self,
        engines: Engines,
        open_session: OpensSession,
        limits: HttpLimits | None = None,
        *,
        store: VoiceStore | None = None,
    ) -> None:
        self._engines = engines
        self._open_session = open_session
        self._limits = limits or HttpLimits()
        self._voices = VoicesApi(
            engines,
            store,
            max_uploads=self._limits.max_uploads,
            body_timeout_s=self._limits.body_timeout_s,
        )
        self._max_recording_bytes = store.limits.max_bytes if store is not None else 0
        self._started_at = int(unix_time_s())

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/audio/speech", self.speech),
            web.post("/v1/audio/speech/batch", self.batch),
            web.get("/v1/audio/models", self.audio_models),
            web.get("/v1/models", self.models),
            web.get("/v1/models/{name:.+}", self.model),
            web.get("/v1/audio/voices", self._voices.list),
            web.post("/v1/audio/voices", self._voices.add),
            web.delete("/v1/audio/voices/{name}", self._voices.remove),
        ]

    @property
    def accepts_voices(self) -> bool:
        """Whether a recording can be uploaded as a voice."""
        return self._voices.accepts_uploads

    async def speech(self, request: web.Request) -> web.StreamResponse:
        fields = await self._json(request, self._limits.max_body_bytes)
        model = self._model_of(fields, self._engines.named_by_url(request.query))
        info = self._engines[model].info
        speech = self._parse(fields, info)
        open_session = partial(self._open_session, model=model)
        return await respond(request, speech, info, open_session, self._limits.write_timeout_s)

    async def batch(self, request: web.Request) -> web.StreamResponse:
        limits = self._limits
        fields = await self._json(request, limits.max_batch_body_bytes)
        default = self._engines.named_by_url(request.query)
        merged = split_batch(fields, max_items=limits.max_batch_items, max_chars=limits.max_batch_chars)
        items = [each if isinstance(each, RealtimeTTSError) else self._item(each, default) for each in merged]
        batch_id = secrets.token_hex(8)

        def open_item(front_end: FrontEnd, item: BatchItem, index: int) -> AbstractAsyncContextManager[SessionRunner]:
            return self._open_session(request, front_end, model=item.model, session_id=f"{batch_id}-{index}")

        async with aclosing(results_in_order(items, open_item, limits.batch_concurrency)) as results:
            return await respond_to_batch(
                request, batch_id, items, results, ignored_fields(items, fields), limits.write_timeout_s
            )

    def _item(self, fields: Fields, default_model: str) -> Item:
        model = self._model_of(fields, default_model)
        info = self._engines[model].info
        try:
            return BatchItem(self._parse(fields, info), info, model)
        except RealtimeTTSError as error:
            return error

    def _parse(self, fields: Fields, info: ModelInfo) -> Speech:
        if info.answers:
            raise ModelNotFound(f"{info.name} answers conversations: use POST /v1/chat/completions", param="model")
        return parse_speech(
            fields,
            info,
            partial(self._voices.config_of, info),
            max_chars=self._limits.max_input_chars,
            max_whole_chars=self._limits.max_whole_chars,
            text_filters=self._limits.text_filters,
        )

    def _model_of(self, fields: Fields, default: str) -> str:
        """The engine that the request names.

        An unknown name is not an error, since clients of OpenAI send "tts-1": the session then reports it as ignored.
        """
        model = fields.get("model")
        return model if isinstance(model, str) and model in self._engines else default

    async def _json(self, request: web.Request, max_bytes: int) -> Fields:
        if self._voices.accepts_uploads:
            max_bytes += self._max_recording_bytes * 4 // 3  # in base64
        async with deadline(self._limits.body_timeout_s):
            return decode_fields(await read_json_body(request, max_bytes))

    async def models(self, _request: web.Request) -> web.Response:
        return json_response(ModelList(object="list", data=tuple(self._model(name, name) for name in self._engines)))

    async def audio_models(self, _request: web.Request) -> web.Response:
        """The list that Open WebUI reads."""
        return json_response(AudioModels(models=tuple(AudioModel(id=name, name=name) for name in self._engines)))

    async def model(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self._engines and name not in OPENAI_MODELS:
            raise ModelNotFound(f"the models of this server are {', '.join(self._engines)}", param="model")
        return json_response(self._model(name, name if name in self._engines else self._engines.default_name))

    def _model(self, name: str, engine: str) -> ModelEntry:
        return ModelEntry(
            id=name,
            object="model",
            created=self._started_at,
            owned_by="realtime-tts",
            scheduler=self._engines.scheduler_of(engine),
            default=engine == self._engines.default_name,
            answers=self._engines[engine].info.answers,
            input_modalities=("text", *sorted(self._engines[engine].info.input_modalities)),
        )
