"""A complete front end for a made-up line protocol over TCP, to show how little one needs."""

import asyncio
import base64
from collections.abc import Iterable

from realtime_tts.audio.pcm import pcm_bytes
from realtime_tts.errors import InvalidMessage
from realtime_tts.session.events import AudioChunk, Failed, SentenceFailed, SentenceStarted, SessionEvent, UtteranceDone
from realtime_tts.session.frontend import Frame
from realtime_tts.session.inputs import Cancel, Configure, Done, SessionInput, Text


class LineFrontEnd:
    """`VOICE name`, `SAY text`, `END` and `STOP` in; `SENTENCE text`, `AUDIO base64`, `DONE` and `ERROR` out."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._rate_hz = 0

    async def receive(self) -> Iterable[SessionInput] | None:
        if not (line := (await self._reader.readline()).decode().rstrip("\n")):
            return None
        word, _, rest = line.partition(" ")
        match word:
            case "VOICE":
                return (Configure(voice=rest),)
            case "SAY":
                return (Text(rest + " "),)
            case "END":
                return (Done(),)
            case "STOP":
                return (Cancel(),)
        raise InvalidMessage(f"unknown word {word!r}")

    def encode(self, event: SessionEvent) -> Iterable[Frame]:
        match event:
            case SentenceStarted():
                self._rate_hz = event.sample_rate_hz
                yield Frame(f"SENTENCE {event.text}\n".encode())
            case AudioChunk():
                data = base64.b64encode(pcm_bytes(event.samples)).decode()
                yield Frame(f"AUDIO {data}\n".encode(), audio_s=len(event.samples) / self._rate_hz)
            case UtteranceDone():
                yield Frame(b"DONE\n")
            case Failed(error=error) | SentenceFailed(error=error):
                yield Frame(f"ERROR {error.code}\n".encode())

    async def send(self, frame: Frame) -> None:
        self._writer.write(frame.data)
        await self._writer.drain()

    async def close(self, code: int, reason: str) -> None:
        self._writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()
