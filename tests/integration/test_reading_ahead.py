"""A model that reads ahead, over a real socket: earlier audio, the same samples, nothing left after a cancel."""

import asyncio

from realtime_tts.client import Audio, connect
from realtime_tts.engine.models import tone
from realtime_tts.frontends.native.messages import AudioDone, SessionDone
from tests.fakes import slots, spoken_pcm, until
from tests.serving import tone_server

SENTENCE = "This is a sentence that is already spoken while it is being written."
WORDS = [word + " " for word in SENTENCE.split()]


async def test_audio_of_a_sentence_is_received_before_its_end_is_sent_and_is_the_same() -> None:
    model = tone.build(reads_ahead=True)
    async with tone_server(model) as (url, _), connect(url) as session, asyncio.timeout(20):
        audio: list[bytes] = []
        dones: list[AudioDone] = []

        async def receive() -> None:
            async for event in session.utterance():
                match event:
                    case Audio(data=data):
                        audio.append(data)
                    case AudioDone():
                        dones.append(event)

        receiving = asyncio.create_task(receive())
        for word in WORDS[:8]:
            await session.send_text(word)
        await until(lambda: bool(audio))
        for word in WORDS[8:]:
            await session.send_text(word)
            await asyncio.sleep(0.01)
        await session.send_text("And a second one.")
        await session.done()
        await receiving
    assert b"".join(audio) == spoken_pcm(SENTENCE) + spoken_pcm("And a second one.")
    assert dones[0].sentence_text == SENTENCE
    assert slots(model) == 0


async def test_a_close_or_cancel_during_a_sentence_frees_its_slots() -> None:
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
