"""Speech, models and voices over plain HTTP, in the shapes of OpenAI's API, through the same sessions and engine."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import HttpProcessingError

from realtime_tts.clock import unix_time_s
from realtime_tts.engine.api import EngineHandle
from realtime_tts.errors import (
    InternalError,
    InvalidConfig,
    InvalidMessage,
    MessageTooBig,
    ModelNotFound,
    Overloaded,
    RealtimeTTSError,
    SlowClient,
    UnknownVoice,
    UnsupportedMediaType,
    VoiceNotFound,
)
from realtime_tts.frontends.openai.errors import error_response
from realtime_tts.frontends.openai.speech import PIECE_BYTES, Fields, OpenSession, decode_fields, parse_speech, respond
from realtime_tts.server.access import Refused
from realtime_tts.session.settings import VOICE_SCHEME
from realtime_tts.text.unicode import printable
from realtime_tts.voices.store import StoredVoice, VoiceStore

log = logging.getLogger(__name__)

HANG_UP_LOOK_S = 0.1
MAX_LISTED_VOICES = 60
MAX_FORM_PARTS = 16
MAX_FORM_TEXT_BYTES = 16 * 1024

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class HttpLimits:
    max_input_chars: int = 16_384
    """Four times OpenAI's: about 17 minutes of speech."""
    max_whole_chars: int = 4096
    """Of what is kept until all of it is made, such as a wav with its size in front."""
    max_body_bytes: int = 256 * 1024
    """Of a request for speech; where the model clones voices, a recording may come on top."""
    max_uploads: int = 4
    """At once: each may hold a recording in memory."""
    body_timeout_s: float = 60.0
    """For a request to have come in."""
    write_timeout_s: float = 30.0
    """For the end of an answer to go out, beyond the time that it plays."""


class HttpApi:
    def __init__(
        self,
        engine: EngineHandle,
        open_session: OpenSession,
        limits: HttpLimits | None = None,
        *,
        store: VoiceStore | None = None,
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        """`aliases` are names of voices, such as OpenAI's, and whom of ours they mean."""
        self._info = engine.info
        self._open_session = open_session
        self._limits = limits or HttpLimits()
        self._aliases = dict(aliases or {})
        self._clones = "ref_audio" in self._info.fields
        self._store = store if self._clones else None
        self._uploads = 0
        self._started_at = int(unix_time_s())

    # -- Speech --------------------------------------------------------------------------------------------------------

    async def speech(self, request: web.Request) -> web.StreamResponse:
        speech = parse_speech(
            await self._json(request),
            self._info,
            self._voice,
            max_chars=self._limits.max_input_chars,
            max_whole_chars=self._limits.max_whole_chars,
        )
        return await respond(request, speech, self._info, self._open_session, self._limits.write_timeout_s)

    def _voice(self, name: str) -> Fields:
        """The fields of `session.config` that mean it.  Raises `UnknownVoice`, which names those that there are."""
        name = self._aliases.get(name, name)
        if name in self._info.voice_names:
            return {"voice": name}
        if self._store is not None and (uploaded := self._store.find(name)) is not None:
            config: Fields = {"ref_audio": f"{VOICE_SCHEME}{uploaded.name}"}
            return config if uploaded.ref_text else config | {"x_vector_only_mode": True}
        uploads = () if self._store is None else self._store.voices()
        names = [*self._info.voice_names, *(voice.name for voice in uploads), *self._aliases]
        more = "" if len(names) <= MAX_LISTED_VOICES else f" and {len(names) - MAX_LISTED_VOICES} more"
        words = f"there is no {printable(name[:80])!r}; there are {', '.join(names[:MAX_LISTED_VOICES])}{more}"
        raise UnknownVoice(words, param="voice")

    async def _json(self, request: web.Request) -> Fields:
        if request.content_type != "application/json" and not request.content_type.endswith("+json"):
            raise UnsupportedMediaType("the body must be JSON, and its Content-Type application/json")
        limit_bytes = self._limits.max_body_bytes
        if self._store is not None:
            limit_bytes += self._store.limits.max_bytes * 4 // 3
        body = bytearray()
        async with _in_time(self._limits.body_timeout_s):
            async for data in request.content.iter_chunked(PIECE_BYTES):
                body += data
                if len(body) > limit_bytes:
                    raise MessageTooBig(f"the body may have {limit_bytes} bytes")
        return decode_fields(bytes(body))

    # -- Models and voices ---------------------------------------------------------------------------------------------

    async def models(self, _request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [self._model()]})

    async def model(self, request: web.Request) -> web.Response:
        if request.match_info["name"] != self._info.name:
            return error_response(ModelNotFound(f"this server has {self._info.name}", param="model"))
        return web.json_response(self._model())

    def _model(self) -> Fields:
        return {"id": self._info.name, "object": "model", "created": self._started_at, "owned_by": "realtime-tts"}

    async def voices(self, _request: web.Request) -> web.Response:
        own = [{"name": voice.name, "language": voice.language, "uploaded": False} for voice in self._info.voices]
        uploaded = [
            # und: BCP-47 for a language that nobody has told.
            {"name": voice.name, "language": "und", "uploaded": True, **_told(voice)}
            for voice in (self._store.voices() if self._store is not None else ())
        ]
        return web.json_response(
            {
                "model": self._info.name,
                "default": self._info.default_voice,
                "voices": own + uploaded,
                "aliases": self._aliases,
            }
        )

    async def add_voice(self, request: web.Request) -> web.Response:
        store = self._cloning_store()
        if self._uploads >= self._limits.max_uploads:
            raise Overloaded(f"{self._uploads} uploads are under way already", retry_after_s=5.0)
        self._uploads += 1
        try:
            async with _in_time(self._limits.body_timeout_s):
                form = await read_form(request, store.limits.max_bytes)
            voice = await asyncio.to_thread(
                store.add,
                form.text("name"),
                form.audio,
                consent=form.text("consent"),
                created_at=round(unix_time_s(), 3),
                ref_text=form.texts.get("ref_text"),
            )
        finally:
            self._uploads -= 1
        told = {"id": voice.name, "object": "audio.voice", "name": voice.name, "type": "audio_sample", **_told(voice)}
        return web.json_response(told, status=201)

    async def remove_voice(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name in self._info.voice_names:
            raise InvalidConfig(f"{name} is one of the model's own voices", param="name")
        try:
            await asyncio.to_thread(self._cloning_store().remove, name)
        except UnknownVoice as error:
            return error_response(VoiceNotFound(error.message))
        return web.json_response({"id": name, "object": "audio.voice.deleted", "deleted": True})

    @property
    def takes_voices(self) -> bool:
        """Whether a recording can be uploaded as a voice."""
        return self._clones and self._store is not None

    def _cloning_store(self) -> VoiceStore:
        if not self._clones:
            raise InvalidConfig(f"the loaded model {self._info.name} cannot clone voices, so none are taken")
        if self._store is None:
            raise InvalidConfig("this server was given no folder to keep voices in, so none are taken")
        return self._store


def add_routes(app: web.Application, api: HttpApi) -> None:
    app.add_routes(
        [
            web.post("/v1/audio/speech", _answered(api.speech)),
            web.get("/v1/models", _answered(api.models)),
            web.get("/v1/models/{name:.+}", _answered(api.model)),
            web.get("/v1/audio/voices", _answered(api.voices)),
            web.post("/v1/audio/voices", _answered(api.add_voice)),
            web.delete("/v1/audio/voices/{name}", _answered(api.remove_voice)),
        ]
    )


# -- Around the handlers ----------------------------------------------------------------------------------------------


def _answered(handler: Handler) -> Handler:
    """Refusals in OpenAI's shape.  What nobody meant to raise is logged, and its words are kept from the client."""

    async def answered(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except Refused as refused:
            kind = "server_error" if refused.status >= 500 else "invalid_request_error"
            error = {"message": refused.message, "type": kind, "param": None, "code": refused.wire_code}
            return web.json_response({"error": error}, status=refused.status, headers=refused.headers)
        except RealtimeTTSError as error:
            return error_response(error)
        except (web.HTTPException, ConnectionError):
            raise
        except Exception:
            log.exception("%s %s has failed", request.method, request.path)
            return error_response(InternalError("something went wrong on the server"))

    return answered


@asynccontextmanager
async def _in_time(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise SlowClient(f"the request was not complete within {seconds:g} s") from None


# -- Uploads ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class VoiceForm:
    audio: bytes = b""
    texts: dict[str, str] = field(default_factory=dict)

    def text(self, name: str) -> str:
        if name not in self.texts:
            raise InvalidConfig("is missing", param=name)
        return self.texts[name]


async def read_form(request: web.Request, max_audio_bytes: int) -> VoiceForm:
    """multipart/form-data, never more of it than is allowed.  Raises a `RealtimeTTSError`."""
    if request.content_type != "multipart/form-data":
        raise UnsupportedMediaType("the body must be multipart/form-data, with name, consent and audio")
    form = VoiceForm()
    try:
        reader = await request.multipart()
        for _part in range(MAX_FORM_PARTS):
            part = await reader.next()
            if part is None:
                break
            if not isinstance(part, BodyPartReader) or part.name is None:
                raise InvalidMessage("every part of the form must have a name and no parts of its own")
            if part.name in ("audio", "ref_audio", "audio_sample"):  # the last is OpenAI's
                form.audio = await _read_part(part, max_audio_bytes)
            else:
                form.texts[part.name] = (await _read_part(part, MAX_FORM_TEXT_BYTES)).decode()
        else:
            raise InvalidMessage(f"a form has less than {MAX_FORM_PARTS} parts")
    except (HttpProcessingError, ValueError, AssertionError, LookupError) as error:  # aiohttp's, of a form that is none
        raise InvalidMessage(f"the form cannot be read: {printable(str(error))}") from None
    if form.texts.get("type", "audio_sample") != "audio_sample":
        raise InvalidConfig("must be audio_sample; voices cannot be made from prompts", param="type")
    if not form.audio:
        raise InvalidConfig("is missing", param="audio")
    return form


async def _read_part(part: BodyPartReader, max_bytes: int) -> bytes:
    data = bytearray()
    while chunk := await part.read_chunk(PIECE_BYTES):
        data += chunk
        if len(data) > max_bytes:
            raise MessageTooBig(f"{printable(part.name or '')}: at most {max_bytes} bytes")
    return bytes(data)


def _told(voice: StoredVoice) -> Fields:
    return {"created_at": int(voice.created_at), "duration_s": round(voice.duration_s, 3)}
