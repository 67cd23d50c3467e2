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
from pathlib import Path

import numpy as np
from aiohttp import WSMsgType, web

WEB_DEMO = Path(__file__).parents[2] / "web_demo"
SAMPLE_RATE_HZ = 24000
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' ws: wss:; img-src 'self' data:; "
    "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
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
    speed: float = 3.0
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
    received: list[dict[str, object]] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """A client has gone."""


def tone(duration_s: float, hz: float) -> bytes:
    """s16le mono, with short fades, so that a joint of two sentences is silent."""
    n = round(duration_s * SAMPLE_RATE_HZ)
    t = np.arange(n) / SAMPLE_RATE_HZ
    envelope = np.minimum(1.0, np.minimum(t, t[::-1]) / 0.02)
    return bytes((0.3 * envelope * np.sin(2 * np.pi * hz * t) * 32767).astype("<i2").tobytes())


class FakeServer:
    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/", self.page)
        app.router.add_static("/static", WEB_DEMO)
        app.router.add_get("/v1/audio/voices", self.voices)
        app.router.add_get("/readyz", self.ready)
        app.router.add_get("/v1/audio/speech/stream", self.stream)
        app.on_response_prepare.append(self.harden)
        return app

    async def harden(self, _request: web.Request, response: web.StreamResponse) -> None:
        response.headers["Content-Security-Policy"] = CSP
        response.headers["X-Content-Type-Options"] = "nosniff"

    async def page(self, _request: web.Request) -> web.StreamResponse:
        return web.FileResponse(WEB_DEMO / "index.html")

    async def voices(self, _request: web.Request) -> web.Response:
        return web.json_response({"voices": VOICES, "default": "af_heart"})

    async def ready(self, _request: web.Request) -> web.Response:
        return web.Response(status=503 if self.behaviour.refuse else 200)

    async def stream(self, request: web.Request) -> web.StreamResponse:
        if self.behaviour.refuse:
            return web.Response(status=503)
        socket = web.WebSocketResponse(compress=False)
        await socket.prepare(request)
        text, utterance, speaking = "", 0, None
        async for frame in socket:
            if frame.type is not WSMsgType.TEXT:
                break
            message = json.loads(frame.data)
            self.behaviour.received.append(message)
            if message["type"] == "session.config":
                await self.greet(socket)
            elif message["type"] == "input.text":
                text += message["text"]
            elif message["type"] == "input.done":
                speaking = asyncio.create_task(self.speak(socket, text, utterance))
                text, utterance = "", utterance + 1
        self.behaviour.closed.set()
        if speaking is not None:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)
        return socket

    async def greet(self, socket: web.WebSocketResponse) -> None:
        names = [voice["name"] for voice in VOICES]
        await socket.send_json(
            {
                "type": "session.created",
                "session_id": "fake",
                "protocol": "realtime-tts.v1",
                "model": "tone",
                "voices": names,
                "sample_rate": SAMPLE_RATE_HZ,
                "limits": {},
                "expires_at": 0,
            }
        )

    async def speak(self, socket: web.WebSocketResponse, text: str, utterance: int) -> None:
        await asyncio.sleep(self.behaviour.first_packet_s)
        if self.behaviour.error is not None:
            await socket.send_json({"type": "error", "fatal": False, "retryable": False, **self.behaviour.error})
            return
        sentences = re.findall(r"[^.!?]+[.!?]*", text)
        for index, sentence in enumerate(sentences):
            await self.say(socket, index, sentence.strip(), utterance)
        await socket.send_json(
            {
                "type": "session.done",
                "total_sentences": len(sentences),
                "utterance_index": utterance,
                "something_new": True,
            }
        )

    async def say(self, socket: web.WebSocketResponse, index: int, sentence: str, utterance: int) -> None:
        behaviour = self.behaviour
        pcm = tone(max(0.2, len(sentence) * behaviour.seconds_per_character), hz=220 + 40 * (index % 4))
        start = {"type": "audio.start", "sentence_index": index, "sentence_text": sentence, "format": "pcm"}
        await socket.send_json({**start, "sample_rate": SAMPLE_RATE_HZ, "utterance_index": utterance, "channels": 1})
        step = round(behaviour.packet_s * SAMPLE_RATE_HZ) * 2
        stalled = False
        for offset in range(0, len(pcm), step):
            at_s = offset / 2 / SAMPLE_RATE_HZ
            if behaviour.drop_after_s is not None and at_s >= behaviour.drop_after_s:
                await socket.close(code=1011)
                return
            if behaviour.stall_after_s is not None and at_s >= behaviour.stall_after_s and index == 0 and not stalled:
                stalled = True
                await asyncio.sleep(behaviour.stall_s)
            await socket.send_bytes(pcm[offset : offset + step])
            await asyncio.sleep(behaviour.packet_s / behaviour.speed)
        await socket.send_json(
            {
                "type": "audio.done",
                "sentence_index": index,
                "total_bytes": len(pcm),
                "error": False,
                "reason": "complete",
            }
        )


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
