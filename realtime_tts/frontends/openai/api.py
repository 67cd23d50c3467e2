"""Routes in the shapes of OpenAI's API: speech, models and voices, through the same sessions and engines."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from aiohttp import web

from realtime_tts.clock import unix_time_s
from realtime_tts.errors import ModelNotFound
from realtime_tts.frontends.engines import Engines
from realtime_tts.frontends.openai.request_body import deadline, read_json_body
from realtime_tts.frontends.openai.speech import Fields, decode_fields, parse_speech, respond
from realtime_tts.frontends.openai.voices import VoicesApi
from realtime_tts.session.frontend import FrontEnd
from realtime_tts.session.runner import SessionRunner
from realtime_tts.voices.store import VoiceStore


@dataclass(frozen=True, slots=True)
class HttpLimits:
    max_input_chars: int = 16_384
    """Four times OpenAI's: about 17 minutes of speech."""
    max_whole_chars: int = 4096
    """For responses that are kept until they are complete, such as a wav with its size in front."""
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
        self, request: web.Request, front_end: FrontEnd, *, model: str | None = None
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
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        """`aliases` are other names of voices, such as OpenAI's."""
        self._engines = engines
        self._open_session = open_session
        self._limits = limits or HttpLimits()
        self._voices = VoicesApi(
            engines,
            store,
            aliases or {},
            max_uploads=self._limits.max_uploads,
            body_timeout_s=self._limits.body_timeout_s,
        )
        self._max_recording_bytes = store.limits.max_bytes if store is not None else 0
        self._started_at = int(unix_time_s())

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/audio/speech", self.speech),
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
        fields = await self._json(request)
        model = self._model_of(request, fields)
        info = self._engines[model].info
        if info.answers:
            raise ModelNotFound(f"{model} answers conversations: use POST /v1/chat/completions", param="model")
        speech = parse_speech(
            fields,
            info,
            partial(self._voices.config_of, info),
            max_chars=self._limits.max_input_chars,
            max_whole_chars=self._limits.max_whole_chars,
        )
        open_session = partial(self._open_session, model=model)
        return await respond(request, speech, info, open_session, self._limits.write_timeout_s)

    def _model_of(self, request: web.Request, fields: Fields) -> str:
        """The engine that the request names.

        An unknown name is not an error, since clients of OpenAI send "tts-1": the session then reports it as ignored.
        """
        model = fields.get("model")
        if isinstance(model, str) and model in self._engines:
            return model
        return self._engines.named_by_url(request.query)

    async def _json(self, request: web.Request) -> Fields:
        max_bytes = self._limits.max_body_bytes
        if self._voices.accepts_uploads:
            max_bytes += self._max_recording_bytes * 4 // 3  # in base64
        async with deadline(self._limits.body_timeout_s):
            return decode_fields(await read_json_body(request, max_bytes))

    async def models(self, _request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [self._model(name) for name in self._engines]})

    async def model(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self._engines:
            raise ModelNotFound(f"the models of this server are {', '.join(self._engines)}", param="model")
        return web.json_response(self._model(name))

    def _model(self, name: str) -> Fields:
        return {
            "id": name,
            "object": "model",
            "created": self._started_at,
            "owned_by": "realtime-tts",
            "scheduler": self._engines.scheduler_of(name),
            "default": name == self._engines.default_name,
            "answers": self._engines[name].info.answers,
            "input_modalities": ["text", *sorted(self._engines[name].info.input_modalities)],
        }
