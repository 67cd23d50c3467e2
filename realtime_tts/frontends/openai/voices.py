"""Voices over HTTP: the list, and upload and removal of recordings for models that clone voices."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import TypeVar

from aiohttp import hdrs, web
from multipart import MultipartError, MultipartSegment, PushMultipartParser, parse_options_header

from realtime_tts.clock import unix_time_s
from realtime_tts.engine.api import ModelInfo
from realtime_tts.errors import (
    InvalidConfig,
    InvalidMessage,
    MessageTooBig,
    Overloaded,
    UnknownVoice,
    UnsupportedMediaType,
    VoiceNotFound,
)
from realtime_tts.frontends.engines import Engines
from realtime_tts.frontends.openai.messages import (
    AllVoices,
    DeletedVoice,
    UploadedVoice,
    VoiceEntry,
    VoiceListing,
    json_response,
)
from realtime_tts.frontends.openai.request_body import READ_BYTES, deadline
from realtime_tts.frontends.openai.speech import Fields
from realtime_tts.session.settings import VOICE_SCHEME
from realtime_tts.text.languages import UNDETERMINED
from realtime_tts.text.unicode import printable
from realtime_tts.voices.store import StoredVoice, VoiceStore

MAX_FORM_PARTS = 16
MAX_FORM_TEXT_BYTES = 16 * 1024
MAX_FORM_HEADERS = 8
"""Of one part; RFC 7578 allows three."""
MAX_FORM_HEADER_BYTES = 4096
MAX_BOUNDARY_CHARS = 70
"""RFC 2046, 5.1.1.  A longer one is cut off, so that it fits no line."""
AUDIO_PARTS = frozenset({"audio", "ref_audio", "audio_sample"})
"""The last is OpenAI's name."""

T = TypeVar("T")


class VoicesApi:
    """The voices of all models, the uploaded ones, and the aliases."""

    def __init__(
        self,
        engines: Engines,
        store: VoiceStore | None,
        *,
        max_uploads: int,
        body_timeout_s: float,
    ) -> None:
        """`max_uploads`: at once, since each may hold a recording in memory."""
        self._engines = engines
        self._store = store
        self._max_uploads = max_uploads
        self._body_timeout_s = body_timeout_s
        self._uploads = 0

    def config_of(self, info: ModelInfo, name: str) -> Fields:
        """The fields of `session.config` that select a voice.  Raises `UnknownVoice` or `InvalidConfig`."""
        name = info.unaliased(name)
        store = self._store if info.clones_voices and name not in info.voice_names else None
        if store is not None and (uploaded := store.find(name)) is not None:
            config: Fields = {"ref_audio": f"{VOICE_SCHEME}{uploaded.name}"}
            return config if uploaded.ref_text else config | {"x_vector_only_mode": True}
        # Where a voice has no effect, the session reports it as ignored: OpenAI's clients always send one.
        return {"voice": info.find_voice(name) if info.selects_voices else name}

    # -- Handlers ------------------------------------------------------------------------------------------------------

    async def list(self, request: web.Request) -> web.Response:
        """The voices of the default model, or of `?model=NAME`; `models` has those of all."""
        chosen = self._listing(self._engines.named_by_url(request.query))
        models = tuple(self._listing(name) for name in self._engines)
        return json_response(
            AllVoices(
                model=chosen.model,
                default=chosen.default,
                voices=chosen.voices,
                aliases=chosen.aliases,
                models=models,
            )
        )

    def _listing(self, name: str) -> VoiceListing:
        info = self._engines[name].info
        own = [
            VoiceEntry(id=voice.name, name=voice.name, language=voice.language, uploaded=False) for voice in info.voices
        ]
        uploaded = [
            VoiceEntry(
                id=voice.name,
                name=voice.name,
                language=UNDETERMINED,
                uploaded=True,
                created_at=int(voice.created_at),
                duration_s=round(voice.duration_s, 3),
            )
            for voice in self._uploaded(info)
        ]
        aliases = {alias: voice for alias, voice in info.voice_aliases.items() if alias not in info.voice_names}
        named = [
            # In the same list: clients offer what it has, and users look for the names that they know.
            VoiceEntry(
                id=alias,
                name=alias,
                language=info.language_of(voice) or UNDETERMINED,
                uploaded=False,
                alias_of=voice,
            )
            for alias, voice in aliases.items()
        ]
        return VoiceListing(model=name, default=info.default_voice, voices=(*own, *uploaded, *named), aliases=aliases)

    def _uploaded(self, info: ModelInfo) -> tuple[StoredVoice, ...]:
        return self._store.voices() if self._store is not None and info.clones_voices else ()

    async def add(self, request: web.Request) -> web.Response:
        store = self._usable_store()
        if self._uploads >= self._max_uploads:
            raise Overloaded(f"{self._uploads} uploads are in progress already", retry_after_s=5.0)
        self._uploads += 1
        try:
            async with deadline(self._body_timeout_s):
                form = await read_form(request, store.limits.max_bytes)
            voice = await _to_the_end(
                asyncio.to_thread(
                    store.add,
                    form.text("name"),
                    form.audio,
                    consent=form.text("consent"),
                    created_at=round(unix_time_s(), 3),
                    ref_text=form.texts.get("ref_text"),
                )
            )
        finally:
            self._uploads -= 1
        body = UploadedVoice(
            id=voice.name,
            name=voice.name,
            created_at=int(voice.created_at),
            duration_s=round(voice.duration_s, 3),
        )
        return json_response(body, status=201)

    async def remove(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if any(name in engine.info.voice_names for engine in self._engines.values()):
            raise InvalidConfig(f"{name} is one of the model's own voices", param="name")
        try:
            await asyncio.to_thread(self._usable_store().remove, name)
        except UnknownVoice as error:
            raise VoiceNotFound(error.message) from None
        return json_response(DeletedVoice(id=name, deleted=True))

    @property
    def accepts_uploads(self) -> bool:
        return self._store is not None and any(engine.info.clones_voices for engine in self._engines.values())

    def _usable_store(self) -> VoiceStore:
        if not any(engine.info.clones_voices for engine in self._engines.values()):
            raise InvalidConfig(f"{', '.join(self._engines)} cannot clone voices, so this server accepts none")
        if self._store is None:
            raise InvalidConfig("this server has no folder for voices (http.voices_dir), so it accepts none")
        return self._store


async def _to_the_end(work: Awaitable[T]) -> T:
    """Waits for a thread's work even if the client disconnects: until then it holds the recording in memory."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        raise


# -- The form ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class VoiceForm:
    audio: bytes = b""
    texts: dict[str, str] = field(default_factory=dict)

    def text(self, name: str) -> str:
        if name not in self.texts:
            raise InvalidConfig("is missing", param=name)
        return self.texts[name]


async def read_form(request: web.Request, max_audio_bytes: int) -> VoiceForm:
    """multipart/form-data, up to the limits.  Raises a `RealtimeTTSError`."""
    if request.content_type != "multipart/form-data":
        raise UnsupportedMediaType("the body must be multipart/form-data, with name, consent and audio")
    reader = FormReader(max_audio_bytes)
    max_bytes = max_audio_bytes + MAX_FORM_PARTS * MAX_FORM_TEXT_BYTES
    try:
        parser = form_parser(request.headers[hdrs.CONTENT_TYPE])
        async for data in request.content.iter_chunked(READ_BYTES):
            max_bytes -= len(data)
            if max_bytes < 0:
                raise MessageTooBig("the form is far larger than a recording may be")
            for event in parser.parse(data):
                reader.take(event)
            await asyncio.sleep(0)  # data that has arrived is read without a wait: other clients have their turn
        parser.close()
    except MultipartError as error:
        raise InvalidMessage(f"the form cannot be read: {printable(str(error.args[0]))}") from None
    return reader.form()


def form_parser(content_type: str) -> PushMultipartParser:
    """Its work for each piece of a body is bounded, whatever its lines.  Raises `MultipartError`.

    Not aiohttp's: four clients that sent 15 MB of empty lines delayed all others by 12 s.
    """
    _kind, options = parse_options_header(content_type)
    return PushMultipartParser(
        options.get("boundary", "")[:MAX_BOUNDARY_CHARS],
        max_header_size=MAX_FORM_HEADER_BYTES,
        max_header_count=MAX_FORM_HEADERS,
        max_segment_count=MAX_FORM_PARTS - 1,
    )


class FormReader:
    """Keeps the parts of a form that the parser finds, within their limits."""

    def __init__(self, max_audio_bytes: int) -> None:
        self._max_audio_bytes = max_audio_bytes
        self._name = ""
        self._data = bytearray()
        self._form = VoiceForm()

    def take(self, event: MultipartSegment | bytes | bytearray | None) -> None:
        """The beginning of a part, some of its content, or its end.  Raises a `RealtimeTTSError`."""
        if event is None:
            self._keep()
        elif isinstance(event, MultipartSegment):
            if not event.name:
                raise InvalidMessage("every part of the form must have a name")
            self._name, self._data = event.name, bytearray()
        else:
            self._data += event
            max_bytes = self._max_audio_bytes if self._name in AUDIO_PARTS else MAX_FORM_TEXT_BYTES
            if len(self._data) > max_bytes:
                raise MessageTooBig(f"at most {max_bytes} bytes", param=printable(self._name))

    def _keep(self) -> None:
        if self._name in AUDIO_PARTS:
            self._form.audio = bytes(self._data)
            return
        try:
            self._form.texts[self._name] = self._data.decode()
        except UnicodeDecodeError:
            raise InvalidMessage("is not UTF-8", param=printable(self._name)) from None

    def form(self) -> VoiceForm:
        """Raises `InvalidConfig` if the form is not one for a voice."""
        form = self._form
        if form.texts.get("type", "audio_sample") != "audio_sample":
            raise InvalidConfig("must be audio_sample; this server makes no voices from prompts", param="type")
        if not form.audio:
            raise InvalidConfig("is missing", param="audio")
        return form
