"""Fake server of the real protocol with tones and configurable faults, for the tests of the page.

By hand: `python -m tests.web_demo.fake_server 8765`, then open http://127.0.0.1:8765/.
"""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np
from aiohttp import WSMsgType, web

from realtime_tts.audio.playout import PlayoutLedger
from realtime_tts.server.static_files import SECURITY_HEADERS, add_routes

SAMPLE_RATE_HZ = 24000
VOICES = [
    {"name": name, "language": language}
    for language, names in {
        "en-US": ("af_heart", "af_nova", "am_adam"),
        "en-GB": ("bf_emma", "bm_lewis"),
        "ja": ("hana",),
    }.items()
    for name in names
]
OTHER_VOICES = [{"name": "am_adam", "language": "en-US"}, {"name": "solo", "language": "de"}]
"""Of every model but "tone" and its variants."""


@dataclass
class Behaviour:
    """Settings of the server, which a test may change between utterances, and a record of its clients' messages."""

    first_packet_s: float = 0.08
    speed: float = 10.0
    """Seconds of audio generated per second."""
    packet_s: float = 0.08
    seconds_per_character: float = 0.03
    stall_after_s: float | None = None
    """Seconds of audio in the first sentence before a stall of `stall_s`."""
    stall_s: float = 0.6
    drop_after_s: float | None = None
    """Seconds of audio before the connection is closed."""
    refuse: bool = False
    """Answer the WebSocket and /readyz with 503."""
    error: dict[str, object] | None = None
    """Sent instead of audio."""
    times_words: bool = True
    key: str | None = None
    """The API key, required for HTTP requests and tokens."""
    models: tuple[str, ...] = ("tone",)
    """The first is the default; "tone@policy_c" is the model "tone" under another scheduler."""
    lists_models: bool = True
    """False for an older server: no /v1/models, and voices of the default model only."""
    uploads: list[dict[str, str]] | None = None
    """The forms of the uploaded voices; None if the model cannot clone."""
    received: list[dict[str, object]] = field(default_factory=list)
    connections: list[str | None] = field(default_factory=list)
    """The `model` of each connection's first session.config."""
    tokens: list[str] = field(default_factory=list)
    """Issued and not yet used."""
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client disconnects."""

    def messages(self, kind: str) -> list[dict[str, object]]:
        """The received messages of one type."""
        return [message for message in self.received if message["type"] == kind]


def tone(duration_s: float, hz: float) -> bytes:
    """s16le mono, with short fades, so that sentences join without a click."""
    n = round(duration_s * SAMPLE_RATE_HZ)
    t = np.arange(n) / SAMPLE_RATE_HZ
    envelope = np.minimum(1.0, np.minimum(t, t[::-1]) / 0.02)
    return bytes((0.3 * envelope * np.sin(2 * np.pi * hz * t) * 32767).astype("<i2").tobytes())


@dataclass
class Utterance:
    """The text of one context so far."""

    context_id: str
    index: int
    text: str = ""
    speaking: asyncio.Task[None] | None = None


class FakeServer:
    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour

    def app(self) -> web.Application:
        app = web.Application()
        add_routes(app)
        app.router.add_get("/v1/models", self.models)
        app.router.add_get("/v1/audio/voices", self.voices)
        app.router.add_post("/v1/audio/voices", self.upload)
        app.router.add_get("/v1/demo", self.demo)
        app.router.add_post("/v1/realtime/tokens", self.token)
        app.router.add_get("/readyz", self.ready)
        app.router.add_get("/v1/audio/speech/stream", self.stream)
        app.on_response_prepare.append(self.add_security_headers)
        return app

    async def add_security_headers(self, _request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(SECURITY_HEADERS)

    def check_key(self, request: web.Request) -> None:
        key = self.behaviour.key
        if key is not None and request.headers.get("Authorization") != f"Bearer {key}":
            raise web.HTTPUnauthorized(text='{"error": {"code": "unauthorized", "message": "no valid key"}}')

    async def models(self, request: web.Request) -> web.Response:
        self.check_key(request)
        if not self.behaviour.lists_models:
            raise web.HTTPNotFound
        entries = []
        for name in self.behaviour.models:
            _, _, scheduler = name.partition("@")
            entries.append({"id": name, "object": "model"} | ({"scheduler": scheduler} if scheduler else {}))
        return web.json_response({"object": "list", "data": entries})

    async def voices(self, request: web.Request) -> web.Response:
        self.check_key(request)
        answers = [self.voices_of(model) for model in self.behaviour.models]
        selected = next((each for each in answers if each["model"] == request.query.get("model")), answers[0])
        return web.json_response(selected | ({"models": answers} if self.behaviour.lists_models else {}))

    def voices_of(self, model: str) -> dict[str, object]:
        voices = VOICES if model.startswith("tone") else OTHER_VOICES
        uploaded = [{"name": form["name"], "language": "und"} for form in self.behaviour.uploads or ()]
        return {"model": model, "default": voices[0]["name"], "voices": voices + uploaded}

    async def demo(self, request: web.Request) -> web.Response:
        self.check_key(request)
        return web.json_response({"schedulers": ["deadline"], "clones": self.behaviour.uploads is not None})

    async def upload(self, request: web.Request) -> web.Response:
        assert self.behaviour.uploads is not None, "the page must not offer the upload"
        form = await request.post()
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        self.behaviour.uploads.append(fields)
        return web.json_response({"name": fields["name"]}, status=201)

    async def token(self, request: web.Request) -> web.Response:
        self.check_key(request)
        token = f"token-{len(self.behaviour.tokens)}"
        self.behaviour.tokens.append(token)
        return web.json_response({"token": token, "expires_at": 0})

    async def ready(self, _request: web.Request) -> web.Response:
        return web.Response(status=503 if self.behaviour.refuse else 200)

    async def stream(self, request: web.Request) -> web.StreamResponse:
        if self.behaviour.refuse:
            return web.Response(status=503)
        offered = [name.strip() for name in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        if self.behaviour.key is not None:
            token = next((name.removeprefix("realtime-tts.token.") for name in offered if ".token." in name), "")
            if token not in self.behaviour.tokens:
                return web.Response(status=401)
            self.behaviour.tokens.remove(token)
        socket = web.WebSocketResponse(compress=False, protocols=("realtime-tts.v1",))
        await socket.prepare(request)
        await Connection(socket, self.behaviour).run()
        self.behaviour.closed.set()
        return socket


class Connection:
    """One client's WebSocket."""

    def __init__(self, socket: web.WebSocketResponse, behaviour: Behaviour) -> None:
        self.socket = socket
        self.behaviour = behaviour
        self.utterances: dict[str, Utterance] = {}
        self.utterance_count = 0
        self.is_configured = False

    async def run(self) -> None:
        async for frame in self.socket:
            if frame.type is not WSMsgType.TEXT:
                break
            message = json.loads(frame.data)
            self.behaviour.received.append(message)
            await self.handle(message)
        tasks = [each.speaking for each in self.utterances.values() if each.speaking is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def handle(self, message: dict[str, str]) -> None:
        context_id = message.get("context_id", "")
        if message["type"] == "session.config":
            await self.configure(message.get("model"))
        elif message["type"] == "input.text":
            self.utterance(context_id).text += message["text"]
        elif message["type"] == "input.done":
            utterance = self.utterance(context_id)
            utterance.speaking = asyncio.create_task(Speech(self.socket, self.behaviour, utterance).speak())
        elif message["type"] == "input.cancel":
            await self.cancel(self.utterances.pop(context_id), float(message["playback_offset_ms"]))

    def utterance(self, context_id: str) -> Utterance:
        if context_id not in self.utterances:
            self.utterances[context_id] = Utterance(context_id, self.utterance_count)
            self.utterance_count += 1
        return self.utterances[context_id]

    async def configure(self, model: str | None) -> None:
        if self.is_configured:
            return
        self.is_configured = True
        self.behaviour.connections.append(model)
        name = model or self.behaviour.models[0]
        voices = [voice["name"] for voice in VOICES]
        created = {"type": "session.created", "session_id": "fake", "protocol": "realtime-tts.v1", "model": name}
        await self.socket.send_json(
            {**created, "voices": voices, "sample_rate": SAMPLE_RATE_HZ, "limits": {}, "expires_at": 0}
        )

    async def cancel(self, utterance: Utterance, played_ms: float) -> None:
        """Splits the text at the character of the playback position."""
        if utterance.speaking is not None:
            utterance.speaking.cancel()
        played = round(played_ms / 1000 / self.behaviour.seconds_per_character)
        ids = {"context_id": utterance.context_id, "utterance_index": utterance.index}
        spoken, rest = utterance.text[:played], utterance.text[played:]
        cancelled = {"type": "audio.cancelled", **ids, "sentence_index": 0, "text_spoken": spoken}
        await self.socket.send_json(
            {**cancelled, "text_remaining": rest, "audio_played_ms": played_ms, "source": "reported"}
        )
        await self.socket.send_json({"type": "session.done", **ids, "total_sentences": 1, "reason": "cancelled"})


class Speech:
    """The messages and audio of one utterance."""

    def __init__(self, socket: web.WebSocketResponse, behaviour: Behaviour, utterance: Utterance) -> None:
        self.socket = socket
        self.behaviour = behaviour
        self.utterance = utterance
        self.ids: dict[str, object] = {"context_id": utterance.context_id, "utterance_index": utterance.index}
        self.ledger = PlayoutLedger()

    async def speak(self) -> None:
        started_at_s = asyncio.get_running_loop().time()
        await asyncio.sleep(self.behaviour.first_packet_s)
        if self.behaviour.error is not None:
            await self.socket.send_json({"type": "error", "fatal": False, "retryable": False, **self.behaviour.error})
            return
        sentences = [match for match in re.finditer(r"[^.!?]+[.!?]*", self.utterance.text) if match[0].strip()]
        for index, match in enumerate(sentences):
            begin = match.start() + len(match[0]) - len(match[0].lstrip())
            await self.speak_sentence(index, match[0].strip(), begin)
        report = self.ledger.report(started_at_s=started_at_s)
        continuity = {
            "ttfp_ms": self.behaviour.first_packet_s * 1000,
            "audio_ms": report.audio_s * 1000,
            "underrun_count": report.underrun_count,
            "underrun_total_ms": report.underrun_total_s * 1000,
            "max_underrun_ms": report.max_underrun_s * 1000,
        }
        done = {"type": "session.done", **self.ids, "total_sentences": len(sentences), "reason": "complete"}
        await self.socket.send_json({**done, "continuity": continuity, "unknown_field": True})

    async def speak_sentence(self, index: int, sentence: str, begin: int) -> None:
        behaviour = self.behaviour
        duration_s = max(0.2, len(sentence) * behaviour.seconds_per_character)
        pcm = tone(duration_s, hz=220 + 40 * (index % 4))
        start = {"type": "audio.start", **self.ids, "sentence_index": index, "sentence_text": sentence}
        span = [begin, begin + len(sentence)]
        await self.socket.send_json(
            {**start, "format": "pcm", "sample_rate": SAMPLE_RATE_HZ, "channels": 1, "text_span": span}
        )
        await self.send_word_times(index, sentence, begin)
        step = round(behaviour.packet_s * SAMPLE_RATE_HZ) * 2
        stalled = False
        for offset in range(0, len(pcm), step):
            at_s = offset / 2 / SAMPLE_RATE_HZ
            if behaviour.drop_after_s is not None and at_s >= behaviour.drop_after_s:
                await self.socket.close(code=1011)
                return
            if behaviour.stall_after_s is not None and at_s >= behaviour.stall_after_s and index == 0 and not stalled:
                stalled = True
                await asyncio.sleep(behaviour.stall_s)
            packet = pcm[offset : offset + step]
            self.ledger.record(
                arrived_at_s=asyncio.get_running_loop().time(), duration_s=len(packet) / 2 / SAMPLE_RATE_HZ
            )
            await self.socket.send_bytes(packet)
            await asyncio.sleep(behaviour.packet_s / behaviour.speed)
        samples = len(pcm) // 2
        done = {"type": "audio.done", **self.ids, "sentence_index": index, "total_bytes": len(pcm), "error": False}
        metrics = {"ttfp_ms": behaviour.first_packet_s * 1000, "queue_ms": 0.0}
        await self.socket.send_json(
            {**done, "reason": "complete", "samples": samples, "duration_ms": samples / 24, "metrics": metrics}
        )

    async def send_word_times(self, index: int, sentence: str, begin: int) -> None:
        """All characters have the same duration."""
        per_character_ms = self.behaviour.seconds_per_character * 1000
        words = [
            {
                "word": match[0],
                "start_ms": match.start() * per_character_ms,
                "end_ms": match.end() * per_character_ms,
                "text_span": [begin + match.start(), begin + match.end()],
            }
            for match in re.finditer(r"\S+", sentence)
        ]
        timed = self.behaviour.times_words
        result = {"status": "ok" if timed else "unsupported", "words": words if timed else []}
        await self.socket.send_json({"type": "audio.timestamps", **self.ids, "sentence_index": index, **result})


@asynccontextmanager
async def serving(behaviour: Behaviour, port: int = 0) -> AsyncIterator[str]:
    """Yields the address of a running fake server."""
    runner = web.AppRunner(FakeServer(behaviour).app(), shutdown_timeout=0.5)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    try:
        host, bound = runner.addresses[0][:2]
        yield f"http://{host}:{bound}/"
    finally:
        await runner.cleanup()


async def main(port: int) -> None:
    async with serving(Behaviour(), port):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
