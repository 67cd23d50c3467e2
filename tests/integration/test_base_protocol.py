"""The base protocol over a real socket: a client that knows nothing else gets exactly the model's audio."""

import asyncio
import io
import random
import wave
from collections.abc import AsyncIterator
from typing import Any

import pytest

from realtime_tts.audio.wav import HEADER_BYTES
from realtime_tts.client import Audio, connect
from realtime_tts.engine.models import tone
from tests.base_client import (
    BaseClient,
    Slicer,
    Utterance,
    all_at_once,
    base_client,
    character_by_character,
    word_by_word,
)
from tests.fakes import slots, spoken, spoken_pcm, until
from tests.serving import tone_server

STREAM = {"voice": "tone_low", "response_format": "pcm", "stream_audio": True}
TEXT = "Hello world.  This is a streaming demo, of 3.5 sentences!\n\nIs it? 😀 It is, said Dr. Smith."
SENTENCES = [
    "Hello world.",
    "This is a streaming demo, of 3.5 sentences!",
    "Is it?",
    "😀 It is, said Dr. Smith.",
]


SLICERS: list[Slicer] = [all_at_once, word_by_word, character_by_character]


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with tone_server() as (url, _server):
        yield url


def exact(utterance: Utterance, *, voice: str = "tone_low", speed: float = 1.0) -> bool:
    """Whether each sentence's PCM, at the model's rate, is the model's own."""
    return utterance.audio == [spoken_pcm(text, voice=voice, speed=speed) for text in utterance.texts]


def wav_pcm(data: bytes) -> tuple[bytes, int]:
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getcomptype()) == (1, 2, "NONE")
        pcm = file.readframes(file.getnframes())
        assert len(pcm) == 2 * file.getnframes(), "the header has the true length"
        return pcm, file.getframerate()


async def test_streamed_pcm_is_the_model_s_audio_for_any_slicing_of_the_text(url: str) -> None:
    for slicer in SLICERS:
        async with base_client(url, **STREAM) as client:
            utterance = await client.speak(TEXT, slicer)
        assert utterance.texts == SENTENCES, slicer
        assert exact(utterance), slicer
        assert {(s.format, s.sample_rate) for s in utterance.sentences} == {("pcm", 24_000)}, slicer
        assert all(len(s.frames) > 1 for s in utterance.sentences), f"not streamed: {slicer}"
        assert not utterance.errors, slicer
        for sentence in utterance.sentences:
            start, end = sentence.start["text_span"]
            assert TEXT[start:end] == sentence.text, slicer


async def test_the_default_is_whole_wav_files(url: str) -> None:
    for slicer in (all_at_once, word_by_word):
        async with base_client(url) as client:
            utterance = await client.speak(TEXT, slicer)
        assert utterance.texts == SENTENCES, slicer
        for sentence in utterance.sentences:
            assert sentence.format == "wav", slicer
            assert len(sentence.frames) == 1, slicer
            assert wav_pcm(sentence.audio) == (spoken_pcm(sentence.text), 24_000), slicer


async def test_streamed_wav_is_one_header_and_the_model_s_audio(url: str) -> None:
    async with base_client(url, response_format="wav", stream_audio=True) as client:
        utterance = await client.speak(TEXT)
    for sentence in utterance.sentences:
        assert sentence.audio[:4] == b"RIFF"
        assert sentence.audio[44:] == spoken_pcm(sentence.text)


async def test_whole_pcm_is_one_message_per_sentence(url: str) -> None:
    async with base_client(url, response_format="pcm", stream_audio=False) as client:
        utterance = await client.speak(TEXT)
    assert [len(s.frames) for s in utterance.sentences] == [1] * len(SENTENCES)
    assert exact(utterance)


async def test_another_sample_rate_gives_the_exact_number_of_samples(url: str) -> None:
    for rate_hz in (8_000, 16_000, 22_050, 48_000):
        async with base_client(url, **STREAM, sample_rate=rate_hz) as client:
            streamed = await client.speak(TEXT)
            await client.config(stream_audio=False)
            whole = await client.speak(TEXT)
        for sentence in streamed.sentences:
            assert sentence.sample_rate == rate_hz
            assert len(sentence.audio) == 2 * round(len(spoken(sentence.text)) * rate_hz / 24_000), rate_hz
        assert streamed.audio == whole.audio, rate_hz


async def test_speed_is_applied_by_the_model(url: str) -> None:
    for speed in (0.25, 0.5, 2, 4.0):
        async with base_client(url, **STREAM, speed=speed) as client:
            assert exact(await client.speak("Hello there. Goodbye."), speed=speed), speed


async def test_a_configured_initial_chunk_changes_packets_and_not_samples(url: str) -> None:
    async with base_client(url, **STREAM, initial_codec_chunk_frames=7) as client:
        utterance = await client.speak(TEXT)
    assert exact(utterance)
    assert len(utterance.sentences[1].frames[0]) == 2 * 7 * tone.SAMPLES_PER_FRAME


async def test_one_connection_can_have_several_utterances_and_configs(url: str) -> None:
    async with base_client(url, **STREAM) as client:
        assert exact(await client.speak(TEXT))
        await client.config(voice="tone_high")
        assert exact(await client.speak(TEXT), voice="tone_high")
        await client.config(speed=2.0)
        await client.config(speed=2.0)
        assert exact(await client.speak(TEXT), voice="tone_high", speed=2.0)
        await client.config(response_format="wav", stream_audio=False, speed=1.0, voice="tone_low")
        whole = await client.speak("Back again.")
        assert wav_pcm(whole.sentences[0].audio)[0] == spoken_pcm("Back again.")


async def test_utterances_sent_ahead_are_separate_and_keep_their_configs(url: str) -> None:
    async with base_client(url, **STREAM) as client:
        await client.send_utterance("First one. And more of it.")
        await client.config(voice="tone_high")
        await client.send_utterance("Second one.", word_by_word)
        await client.send_utterance("")
        await client.send_utterance("Fourth one.")
        utterances = [await client.utterance() for _ in range(4)]
    assert [u.texts for u in utterances] == [["First one.", "And more of it."], ["Second one."], [], ["Fourth one."]]
    assert [u.done["utterance_index"] for u in utterances] == [0, 1, 2, 3]
    assert exact(utterances[0])
    assert exact(utterances[1], voice="tone_high")
    assert exact(utterances[3], voice="tone_high")


async def test_a_config_during_an_utterance_applies_from_the_next_one(url: str) -> None:
    async with base_client(url, **STREAM) as client:
        await client.send({"type": "input.text", "text": "Half of "})
        await client.config(voice="tone_high")
        assert exact(await client.speak("it is here. The rest too."))
        assert exact(await client.speak("Now the other."), voice="tone_high")


async def test_a_sentence_is_spoken_before_its_utterance_is_complete(url: str) -> None:
    async with base_client(url, **STREAM) as client:
        await client.send({"type": "input.text", "text": "The first sentence. The second"})
        assert (await client.next("audio.done"))["sentence_index"] == 0


async def test_any_slicing_gives_the_same_sentences_and_the_same_audio(url: str) -> None:
    rng = random.Random(2)

    def at_random(text: str) -> list[str]:
        cuts = sorted(rng.choices(range(len(text) + 1), k=rng.randint(0, 30)))
        return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]  # some are empty

    async with base_client(url, **STREAM) as client:
        for _ in range(12):
            utterance = await client.speak(TEXT, at_random)
            assert utterance.texts == SENTENCES
            assert exact(utterance)


async def test_unknown_fields_are_ignored_and_close_finishes_earlier_text(url: str) -> None:
    async with base_client(url, **STREAM, from_the_future={"a": [1]}) as client:
        await client.send({"type": "input.text", "text": "Hello there.", "context_id": "c", "other": None})
        await client.send({"type": "session.close"})
        assert exact(await client.utterance())
        assert await client.close_code() == 1000


async def test_messages_have_the_additional_fields_of_protocol_md(url: str) -> None:
    async with base_client(url, **STREAM) as client:
        created = await client.next("session.created")
        assert created["voices"] == ["tone_low", "tone_high"]
        utterance = await client.speak(TEXT)
    for sentence in utterance.sentences:
        assert (sentence.start["channels"], sentence.start["utterance_index"]) == (1, 0)
        assert sentence.done["reason"] == "complete"
        assert sentence.done["duration_ms"] == pytest.approx(len(sentence.audio) / 48, abs=0.1)
        assert sentence.done["metrics"]["chunks"] == len(sentence.frames)
    assert utterance.done["usage"]["characters"] == len(TEXT)
    assert utterance.done["continuity"]["packets"] == sum(len(s.frames) for s in utterance.sentences)


async def test_32_concurrent_sessions_are_exact_and_in_order() -> None:
    model = tone.build(costs=tone.ToneCosts(a0_s=0.0005, b0_s=0.00001, a1_s=0.0002))

    async def one(number: int, url: str) -> None:
        voice = ("tone_low", "tone_high")[number % 2]
        speed = (1.0, 2.0, 4.0)[number % 3]
        texts = [[f"Session {number}, utterance {u}, sentence {s}." for s in range(3)] for u in range(2)]
        async with base_client(url, **STREAM | {"voice": voice}, speed=speed) as client:
            for sentences in texts:
                await client.send_utterance(" ".join(sentences), SLICERS[number % 3])
            for sentences in texts:
                utterance = await client.utterance()
                assert utterance.texts == sentences
                assert exact(utterance, voice=voice, speed=speed)

    async with tone_server(model) as (url, server):
        await asyncio.gather(*(one(number, url) for number in range(32)))
        await until(lambda: server.active_sessions == 0)
    assert slots(model) == 0


async def test_a_client_that_pauses_its_reading_gets_every_byte(url: str) -> None:
    async with base_client(url, **STREAM | {"sample_rate": 48_000}, speed=0.5) as client:
        await client.send_utterance(f"{TEXT} " * 3)
        reader = PausingClient(client)
        utterance = await reader.utterance()
    assert len(utterance.sentences) == 12
    assert all(len(s.audio) == 4 * len(spoken(s.text, speed=0.5)) for s in utterance.sentences)


class PausingClient(BaseClient):
    """Pauses its reading again and again, so that the queue of the server fills and empties."""

    def __init__(self, client: BaseClient) -> None:
        super().__init__(client.socket)

    async def utterance(self) -> Utterance:
        pauses = asyncio.create_task(self._pause())
        try:
            return await super().utterance()
        finally:
            pauses.cancel()

    async def _pause(self) -> None:
        transport = self.socket.transport
        while True:
            transport.pause_reading()
            await asyncio.sleep(0.02)
            transport.resume_reading()
            await asyncio.sleep(0.005)


async def test_the_longest_sentence_at_the_lowest_speed_is_spoken_completely(url: str) -> None:
    """77 s of audio: more than the engine keeps unsent of a streamed sentence, and one message of a whole file."""
    text = "word " * 58 + "ends."
    for encoding, streamed, header_bytes in (("pcm", True, 0), ("wav", False, HEADER_BYTES)):
        config: dict[str, Any] = {"response_format": encoding, "stream_audio": streamed, "speed": 0.25}
        async with connect(url, **config) as session, asyncio.timeout(30):
            await session.send_text(text)
            await session.done()
            data = b"".join([event.data async for event in session.utterance() if isinstance(event, Audio)])
        assert data[header_bytes:] == spoken_pcm(text, speed=0.25), encoding
