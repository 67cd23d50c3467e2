"""A Wyoming client (as Home Assistant is one) of a started wyoming_openai: prints a JSON object of what it received.

Arguments: the port, "list" or a text, a voice.
"""

import asyncio
import json
import sys

from wyoming.audio import AudioChunk, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.info import Describe, Info
from wyoming.tts import Synthesize, SynthesizeChunk, SynthesizeStart, SynthesizeStop, SynthesizeStopped, SynthesizeVoice


async def voices(client: AsyncTcpClient) -> list[str]:
    await client.write_event(Describe().event())
    while (event := await client.read_event()) is not None:
        if Info.is_type(event.type):
            return [voice.name for program in Info.from_event(event).tts for voice in program.voices]
    return []


async def speak(client: AsyncTcpClient, text: str, voice: SynthesizeVoice, *, streamed: bool) -> dict[str, object]:
    if streamed:
        await client.write_event(SynthesizeStart(voice=voice).event())
        await client.write_event(SynthesizeChunk(text=text).event())
        await client.write_event(SynthesizeStop().event())
    else:
        await client.write_event(Synthesize(text=text, voice=voice).event())
    size, rate_hz, error = 0, 0, ""
    while (event := await client.read_event()) is not None:
        if AudioChunk.is_type(event.type):
            chunk = AudioChunk.from_event(event)
            size, rate_hz = size + len(chunk.audio), chunk.rate
        elif Error.is_type(event.type):
            error = Error.from_event(event).text
            break
        elif SynthesizeStopped.is_type(event.type) if streamed else AudioStop.is_type(event.type):
            break
    return {"bytes": size, "rate_hz": rate_hz, "error": error}


async def main() -> None:
    port, text, name = sys.argv[1:]
    async with AsyncTcpClient("127.0.0.1", int(port)) as client:
        result: dict[str, object] = {"voices": await voices(client)}
        voice = SynthesizeVoice(name=name)
        for way, streamed in (("whole", False), ("streamed", True)):
            result[way] = await speak(client, text, voice, streamed=streamed)
    print(json.dumps(result))


asyncio.run(main())
