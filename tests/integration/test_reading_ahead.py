"""A model that reads ahead, over a real socket: heard before its sentence has ended, and with the same sound."""

import asyncio

from realtime_tts.client import Audio, connect
from realtime_tts.engine.models import tone
from realtime_tts.frontends.native.messages import AudioDone, SessionDone
from tests.fakes import slots, spoken_pcm, until
from tests.serving import tone_server

SENTENCE = "This is a sentence that is being written while it is spoken already."
WORDS = [word + " " for word in SENTENCE.split()]


async def test_it_is_heard_before_its_end_has_come_and_sounds_the_same() -> None:
    model = tone.build(reads_ahead=True)
    async with tone_server(model) as (url, _), connect(url) as session, asyncio.timeout(20):
        heard: list[bytes] = []
        dones: list[AudioDone] = []

        async def listen() -> None:
            async for event in session.utterance():
                match event:
                    case Audio(data=data):
                        heard.append(data)
                    case AudioDone():
                        dones.append(event)

        listening = asyncio.create_task(listen())
        for word in WORDS[:8]:
            await session.send_text(word)
        await until(lambda: bool(heard))
        for word in WORDS[8:]:
            await session.send_text(word)
            await asyncio.sleep(0.01)
        await session.send_text("And a second one.")
        await session.done()
        await listening
    assert b"".join(heard) == spoken_pcm(SENTENCE) + spoken_pcm("And a second one.")
    assert dones[0].sentence_text == SENTENCE
    assert slots(model) == 0


async def test_leaving_in_mid_sentence_frees_what_waits_for_its_end() -> None:
    model = tone.build(reads_ahead=True)
    async with tone_server(model) as (url, server), asyncio.timeout(20):
        for ending in ("close", "cancel"):
            async with connect(url) as session:
                for word in WORDS[:8]:
                    await session.send_text(word)
                await until(lambda: slots(model) > 0)
                if ending == "cancel":
                    await session.cancel()
                    await session.done()
                    kinds = [type(event) async for event in session.utterance()]
                    assert SessionDone in kinds
            await until(lambda: slots(model) == 0)
        await until(lambda: server.active_sessions == 0)
