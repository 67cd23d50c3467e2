"""A server that speaks the real protocol with a tone, and misbehaves on request: what the page is tested against.

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


@dataclass
class Behaviour:
    """How the server treats the next utterances.  A test sets it before it presses Speak."""

    first_packet_s: float = 0.08
    speed: float = 10.0
    """Seconds of audio made in a second."""
    packet_s: float = 0.08
    seconds_per_character: float = 0.03
    stall_after_s: float | None = None
    """Seconds of audio in the first sentence after which the voice stops for `stall_s`."""
    stall_s: float = 0.6
    drop_after_s: float | None = None
    """Seconds of audio after which the socket is cut off."""
    refuse: bool = False
    """Answer the WebSocket with 503, and /readyz too."""
    error: dict[str, object] | None = None
    """Sent instead of audio."""
    times_words: bool = True
    key: str | None = None
    """What is asked for: in HTTP requests, and for a token."""
    schedulers: tuple[str, ...] = ("deadline",)
    uploads: list[dict[str, str]] | None = None
    """The voices that were uploaded, as their forms say; None where the model cannot clone."""
    received: list[dict[str, object]] = field(default_factory=list)
    asked_for: list[str] = field(default_factory=list)
    """The scheduler that each socket wanted."""
    tokens: list[str] = field(default_factory=list)
    """Given out and not yet used."""
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """A client has gone."""

    def told(self, kind: str) -> list[dict[str, object]]:
        """The messages of one type."""
        return [message for message in self.received if message["type"] == kind]


def tone(duration_s: float, hz: float) -> bytes:
    """s16le mono, with short fades, so that a joint of two sentences is silent."""
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
        app.router.add_get("/v1/audio/voices", self.voices)
        app.router.add_post("/v1/audio/voices", self.upload)
        app.router.add_get("/v1/demo", self.demo)
        app.router.add_post("/v1/realtime/tokens", self.token)
        app.router.add_get("/readyz", self.ready)
        app.router.add_get("/v1/audio/speech/stream", self.stream)
        app.on_response_prepare.append(self.harden)
        return app

    async def harden(self, _request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(SECURITY_HEADERS)

    def check_key(self, request: web.Request) -> None:
        key = self.behaviour.key
        if key is not None and request.headers.get("Authorization") != f"Bearer {key}":
            raise web.HTTPUnauthorized(text='{"error": {"code": "unauthorized", "message": "no valid key"}}')

    async def voices(self, request: web.Request) -> web.Response:
        self.check_key(request)
        uploaded = [{"name": form["name"], "language": "und"} for form in self.behaviour.uploads or ()]
        return web.json_response({"voices": VOICES + uploaded, "default": "af_heart"})

    async def demo(self, request: web.Request) -> web.Response:
        self.check_key(request)
        clones = self.behaviour.uploads is not None
        return web.json_response({"schedulers": list(self.behaviour.schedulers), "clones": clones})

    async def upload(self, request: web.Request) -> web.Response:
        assert self.behaviour.uploads is not None, "the page must not offer it"
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
        self.behaviour.asked_for.append(request.query.get("scheduler", ""))
        socket = web.WebSocketResponse(compress=False, protocols=("realtime-tts.v1",))
        await socket.prepare(request)
        await Conversation(socket, self.behaviour).run()
        self.behaviour.closed.set()
        return socket


class Conversation:
    """One client's socket."""

    def __init__(self, socket: web.WebSocketResponse, behaviour: Behaviour) -> None:
        self.socket = socket
        self.behaviour = behaviour
        self.utterances: dict[str, Utterance] = {}
        self.begun = 0
        self.greeted = False

    async def run(self) -> None:
        async for frame in self.socket:
            if frame.type is not WSMsgType.TEXT:
                break
            message = json.loads(frame.data)
            self.behaviour.received.append(message)
            await self.take(message)
        tasks = [each.speaking for each in self.utterances.values() if each.speaking is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def take(self, message: dict[str, str]) -> None:
        context_id = message.get("context_id", "")
        if message["type"] == "session.config":
            await self.greet()
        elif message["type"] == "input.text":
            self.utterance(context_id).text += message["text"]
        elif message["type"] == "input.done":
            utterance = self.utterance(context_id)
            utterance.speaking = asyncio.create_task(Speech(self.socket, self.behaviour, utterance).speak())
        elif message["type"] == "input.cancel":
            await self.cancel(self.utterances.pop(context_id), float(message["playback_offset_ms"]))

    def utterance(self, context_id: str) -> Utterance:
        if context_id not in self.utterances:
            self.utterances[context_id] = Utterance(context_id, self.begun)
            self.begun += 1
        return self.utterances[context_id]

    async def greet(self) -> None:
        if self.greeted:
            return
        self.greeted = True
        names = [voice["name"] for voice in VOICES]
        created = {"type": "session.created", "session_id": "fake", "protocol": "realtime-tts.v1", "model": "tone"}
        await self.socket.send_json(
            {**created, "voices": names, "sample_rate": SAMPLE_RATE_HZ, "limits": {}, "expires_at": 0}
        )

    async def cancel(self, utterance: Utterance, played_ms: float) -> None:
        """Heard up to the character that the playhead has reached."""
        if utterance.speaking is not None:
            utterance.speaking.cancel()
        heard = round(played_ms / 1000 / self.behaviour.seconds_per_character)
        about = {"context_id": utterance.context_id, "utterance_index": utterance.index}
        spoken, rest = utterance.text[:heard], utterance.text[heard:]
        cancelled = {"type": "audio.cancelled", **about, "sentence_index": 0, "text_spoken": spoken}
        await self.socket.send_json(
            {**cancelled, "text_remaining": rest, "audio_played_ms": played_ms, "source": "reported"}
        )
        await self.socket.send_json({"type": "session.done", **about, "total_sentences": 1, "reason": "cancelled"})


class Speech:
    """The sound of one utterance."""

    def __init__(self, socket: web.WebSocketResponse, behaviour: Behaviour, utterance: Utterance) -> None:
        self.socket = socket
        self.behaviour = behaviour
        self.utterance = utterance
        self.about: dict[str, object] = {"context_id": utterance.context_id, "utterance_index": utterance.index}
        self.ledger = PlayoutLedger()

    async def speak(self) -> None:
        asked_at_s = asyncio.get_running_loop().time()
        await asyncio.sleep(self.behaviour.first_packet_s)
        if self.behaviour.error is not None:
            await self.socket.send_json({"type": "error", "fatal": False, "retryable": False, **self.behaviour.error})
            return
        sentences = [match for match in re.finditer(r"[^.!?]+[.!?]*", self.utterance.text) if match[0].strip()]
        for index, match in enumerate(sentences):
            begin = match.start() + len(match[0]) - len(match[0].lstrip())
            await self.say(index, match[0].strip(), begin)
        report = self.ledger.report(started_at_s=asked_at_s)
        continuity = {
            "ttfp_ms": self.behaviour.first_packet_s * 1000,
            "audio_ms": report.audio_s * 1000,
            "underrun_count": report.underrun_count,
            "underrun_total_ms": report.underrun_total_s * 1000,
            "max_underrun_ms": report.max_underrun_s * 1000,
        }
        done = {"type": "session.done", **self.about, "total_sentences": len(sentences), "reason": "complete"}
        await self.socket.send_json({**done, "continuity": continuity, "something_new": True})

    async def say(self, index: int, sentence: str, begin: int) -> None:
        behaviour = self.behaviour
        duration_s = max(0.2, len(sentence) * behaviour.seconds_per_character)
        pcm = tone(duration_s, hz=220 + 40 * (index % 4))
        start = {"type": "audio.start", **self.about, "sentence_index": index, "sentence_text": sentence}
        span = [begin, begin + len(sentence)]
        await self.socket.send_json(
            {**start, "format": "pcm", "sample_rate": SAMPLE_RATE_HZ, "channels": 1, "text_span": span}
        )
        await self.time_words(index, sentence, begin)
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
        done = {"type": "audio.done", **self.about, "sentence_index": index, "total_bytes": len(pcm), "error": False}
        metrics = {"ttfp_ms": behaviour.first_packet_s * 1000, "queue_ms": 0.0}
        await self.socket.send_json(
            {**done, "reason": "complete", "samples": samples, "duration_ms": samples / 24, "metrics": metrics}
        )

    async def time_words(self, index: int, sentence: str, begin: int) -> None:
        """Each character takes the same time."""
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
        told = {"status": "ok" if timed else "unsupported", "words": words if timed else []}
        await self.socket.send_json({"type": "audio.timestamps", **self.about, "sentence_index": index, **told})


@asynccontextmanager
async def serving(behaviour: Behaviour, port: int = 0) -> AsyncIterator[str]:
    """The address of a running fake server."""
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
