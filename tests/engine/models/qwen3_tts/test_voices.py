"""A recording gives the same voice at any sample rate, is encoded once, and is rejected if it cannot be used."""

import asyncio
import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import aiohttp
import numpy as np
import numpy.typing as npt
import soundfile
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.api import Reference, SynthesisRequest
from realtime_tts.engine.models.qwen3.codec.decoder import Code2Wav
from realtime_tts.engine.models.qwen3_tts.codec_encoder import CodecEncoder
from realtime_tts.engine.models.qwen3_tts.voice_cache import VoiceCache
from realtime_tts.engine.models.qwen3_tts.voices import (
    MAX_BATCH_SAMPLES,
    MAX_LENGTH_RATIO,
    ReadyVoice,
    VoiceBuilder,
    _batches,
    _Recording,
)
from realtime_tts.engine.stage import Model
from realtime_tts.errors import InvalidConfig
from realtime_tts.server.app import ServerOptions
from realtime_tts.voices.references import References
from realtime_tts.voices.store import VoiceStore
from tests.base_client import base_client
from tests.engine.models.qwen3_tts.make_codec import speech
from tests.engine.models.qwen3_tts.pipeline import (
    QUEUE,
    GetWhole,
    ask,
    build,
    decoded,
    lone_codes,
    talker_of,
    voice_of,
    voices_of,
)
from tests.engine.models.qwen3_tts.tiny import GetTiny
from tests.serving import tone_server

SAMPLES = speech(1.5, seed=3)
REFERENCE = Reference("digest", SAMPLES, 24_000, "the hello")


@pytest.fixture
def builder(built: Callable[[str], Model]) -> VoiceBuilder:
    """With an empty cache."""
    builder = voices_of(talker_of(built("shallow_base")))
    builder.cache = VoiceCache(builder.cache.limit_bytes)
    return builder


def voice(builder: VoiceBuilder, reference: Reference | None = REFERENCE, embedding: Any = None) -> ReadyVoice:
    request = SynthesisRequest("r", "s", "hi", "", reference=reference, speaker_embedding=embedding)
    return voice_of(builder, request)


def test_a_recording_gives_an_x_vector_codes_and_a_decoder_state(builder: VoiceBuilder) -> None:
    found = voice(builder)
    assert found.cloned.x_vector.shape == (64,)
    assert found.cloned.reference is not None
    assert found.cloned.reference.text == "the hello"
    assert found.cloned.reference.codes.shape == (19, 16)  # 1.5 s at 12.5 frames, rounded up
    assert found.decoder_state is not None
    assert found.decoder_state.abs().sum() > 0


def test_the_x_vector_is_the_same_without_a_transcript(builder: VoiceBuilder) -> None:
    alone = voice(builder, replace(REFERENCE, x_vector_only=True, text=None))
    np.testing.assert_array_equal(alone.cloned.x_vector, voice(builder).cloned.x_vector)
    assert alone.cloned.reference is None
    assert alone.decoder_state is None


def test_another_sample_rate_gives_nearly_the_same_x_vector(builder: VoiceBuilder) -> None:
    own = voice(builder, replace(REFERENCE, x_vector_only=True)).cloned.x_vector
    for rate_hz in (16_000, 44_100, 48_000):
        count = round(1.5 * rate_hz)
        samples = np.interp(np.arange(count) / rate_hz, np.arange(len(SAMPLES)) / 24_000, SAMPLES).astype(np.float32)
        other = voice(builder, Reference(f"at {rate_hz}", samples, rate_hz, x_vector_only=True)).cloned.x_vector
        assert np.dot(other, own) / np.linalg.norm(other) / np.linalg.norm(own) > 0.9, rate_hz


def test_a_recording_is_encoded_once_for_any_transcript(builder: VoiceBuilder) -> None:
    first, again = voice(builder), voice(builder, replace(REFERENCE, text="the world"))
    assert len(builder.cache) == 1
    assert first.decoder_state is again.decoder_state
    assert again.cloned.reference is not None
    assert again.cloned.reference.text == "the world"
    voice(builder, replace(REFERENCE, x_vector_only=True))
    voice(builder, replace(REFERENCE, key="another"))
    assert len(builder.cache) == 3


def test_an_embedding_has_priority_over_a_recording(builder: VoiceBuilder) -> None:
    found = voice(builder, embedding=tuple(range(64)))
    np.testing.assert_array_equal(found.cloned.x_vector, np.arange(64))
    assert found.cloned.reference is None
    assert found.decoder_state is None
    assert not len(builder.cache)


def test_an_unusable_recording_is_rejected_and_not_cached(builder: VoiceBuilder) -> None:
    unusable = [
        None,
        replace(REFERENCE, text=None),
        replace(REFERENCE, text=" \n"),
        replace(REFERENCE, samples=SAMPLES[:0]),
        replace(REFERENCE, samples=SAMPLES[:300]),
        replace(REFERENCE, samples=SAMPLES[:300], x_vector_only=True),
        replace(REFERENCE, samples=np.zeros(8000 * 61, np.float32), sample_rate_hz=8000),
    ]
    for reference in unusable:
        with pytest.raises(InvalidConfig):
            voice(builder, reference)
        assert not len(builder.cache)
        assert builder.decoder.arena.free == 1


def test_invalid_samples_and_silence_give_finite_voices(builder: VoiceBuilder) -> None:
    recordings = [np.zeros(30_000, np.float32)]
    for invalid in (np.nan, np.inf, -np.inf, 1e30):
        recordings.append(SAMPLES.copy())
        recordings[-1][5000] = invalid
    for number, samples in enumerate(recordings):
        found = voice(builder, replace(REFERENCE, key=str(number), samples=samples))
        assert np.isfinite(found.cloned.x_vector).all()
        assert found.decoder_state is not None
        assert bool(found.decoder_state.isfinite().all())


# -- Batches -----------------------------------------------------------------------------------------------------------


class CountingEncoder(CodecEncoder):
    """Counts the recordings of each pass."""

    def __init__(self, inner: CodecEncoder) -> None:
        super().__init__(inner._weights, inner._device)
        self.passes: list[int] = []

    def encode(self, recordings: Sequence[npt.NDArray[np.float32]]) -> list[npt.NDArray[np.int64]]:
        self.passes.append(len(recordings))
        return super().encode(recordings)


class CountingDecoder(Code2Wav):
    """Counts the rows of each step."""

    def __init__(self, inner: Code2Wav, slots: int) -> None:
        super().__init__(inner.config, inner._weights, slots, torch.device("cpu"))
        self.steps: list[int] = []

    def step(self, codes: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        self.steps.append(len(index))
        return super().step(codes, index)


def counting(builder: VoiceBuilder, slots: int) -> tuple[VoiceBuilder, CountingEncoder, CountingDecoder]:
    encoder, decoder = CountingEncoder(builder._encoder), CountingDecoder(builder.decoder, slots)
    return VoiceBuilder(builder._speaker, encoder, decoder, builder.cache.limit_bytes), encoder, decoder


LENGTHS = (24_000, 24_001, 25_919, 30_000, 35_000)


def ask_for(number: int, **fields: Any) -> SynthesisRequest:
    samples = speech(1.5, seed=20 + number)[: LENGTHS[number % len(LENGTHS)]]
    reference = replace(Reference(f"key {number}", samples, 24_000, "the hello"), **fields)
    return SynthesisRequest(f"r{number}", "s", "hi", "", reference=reference)


def test_new_recordings_are_encoded_in_one_pass(builder: VoiceBuilder) -> None:
    requests = [ask_for(n) for n in range(5)] + [ask_for(5, x_vector_only=True)]
    alone = [voice_of(builder, request) for request in requests]
    for slots in (1, 2, 8):
        together, encoder, decoder = counting(builder, slots)
        for found, expected in zip(together.voices([*requests, requests[0]]), [*alone, alone[0]], strict=True):
            assert isinstance(found, ReadyVoice)
            np.testing.assert_allclose(found.cloned.x_vector, expected.cloned.x_vector, rtol=0.0, atol=2e-6)
            assert (found.cloned.reference is None) == (expected.cloned.reference is None)
            if found.cloned.reference is not None and expected.cloned.reference is not None:
                np.testing.assert_array_equal(found.cloned.reference.codes, expected.cloned.reference.codes)
                assert found.decoder_state is not None
                torch.testing.assert_close(found.decoder_state, expected.decoder_state, rtol=0.0, atol=1e-5)
        assert encoder.passes == [5]
        assert max(decoder.steps) == min(slots, 5)
        assert decoder.arena.free == slots
        assert len(together.cache) == 6
        assert together.cache.nbytes == builder.cache.nbytes, "a voice keeps no memory of the others in its pass"
        together.voices(requests)
        assert encoder.passes == [5], "they are cached"


def test_an_unusable_recording_affects_no_other_in_its_batch(builder: VoiceBuilder) -> None:
    bad = [
        ask_for(0, samples=SAMPLES[:9], key="short"),
        ask_for(1, text=None, key="no transcript"),
        replace(ask_for(2), reference=None),
    ]
    found = counting(builder, 2)[0].voices([*bad, ask_for(3)])
    assert [type(each) for each in found] == [InvalidConfig] * 3 + [ReadyVoice]


def test_a_voice_too_large_for_the_cache_is_usable(builder: VoiceBuilder) -> None:
    small = VoiceBuilder(builder._speaker, builder._encoder, builder.decoder, limit_bytes=0)
    assert [type(each) for each in small.voices([ask_for(0), ask_for(1)])] == [ReadyVoice] * 2
    assert not len(small.cache)


@given(st.lists(st.integers(1, 80) | st.integers(1, 1500), max_size=40))
@settings(max_examples=30, deadline=None)
def test_a_pass_has_limited_memory_and_little_padding(thousands: list[int]) -> None:
    recordings = [
        _Recording(str(n), np.broadcast_to(np.float32(0), 1000 * count), x_vector_only=False)
        for n, count in enumerate(thousands)
    ]
    passes = list(_batches(recordings))
    assert sorted(int(each.key) for one in passes for each in one) == list(range(len(recordings)))
    for one in passes:
        lengths = [len(each.samples) for each in one]
        assert len(one) == 1 or len(one) * max(lengths) <= MAX_BATCH_SAMPLES
        assert max(lengths) <= MAX_LENGTH_RATIO * min(lengths)


# -- Uploaded voices ---------------------------------------------------------------------------------------------------


def upload(**texts: str) -> aiohttp.FormData:
    recording = io.BytesIO()
    soundfile.write(recording, SAMPLES, 24_000, format="WAV", subtype="PCM_16")
    data = aiohttp.FormData(default_to_multipart=True)
    for name, text in {"consent": "I am the speaker, and I agree.", **texts}.items():
        data.add_field(name, text)
    data.add_field("audio", recording.getvalue(), filename="me.wav", content_type="audio/wav")
    return data


async def test_an_uploaded_voice_is_selected_by_its_name_and_encoded_once(
    whole: GetWhole, tiny: GetTiny, tmp_path: Path
) -> None:
    await _check_upload(whole, tiny, tmp_path, "the hello")


@pytest.mark.slow
async def test_an_uploaded_voice_without_a_transcript_uses_its_x_vector_alone(
    whole: GetWhole, tiny: GetTiny, tmp_path: Path
) -> None:
    await _check_upload(whole, tiny, tmp_path, None)


async def _check_upload(whole: GetWhole, tiny: GetTiny, tmp_path: Path, ref_text: str | None) -> None:
    model, store = build(whole("shallow_base")), VoiceStore(tmp_path)
    talker = talker_of(model)
    talker.voices, encoder, _decoder = counting(voices_of(talker), 1)
    options = ServerOptions(fetch_reference=References(store), voices=store)
    config: dict[str, Any] = {"response_format": "pcm", "stream_audio": True, "seed": 5, "max_new_tokens": 13}
    streams: list[bytes] = []
    async with tone_server(model, config=QUEUE, options=options) as (url, _server), asyncio.timeout(60):
        texts = {"name": "anna"} if ref_text is None else {"name": "anna", "ref_text": ref_text}
        async with aiohttp.ClientSession() as http, http.post(f"{url}/v1/audio/voices", data=upload(**texts)) as answer:
            assert answer.status == 201
        for _ in range(2):
            async with base_client(url, **config, voice="anna") as client:
                streams.append(b"".join((await client.speak("Hello the world.")).audio))
        async with (
            aiohttp.ClientSession() as http,
            http.post(
                f"{url}/v1/audio/speech",
                json={"input": "Hello the world.", "voice": "anna", "response_format": "pcm", "max_new_tokens": 13},
            ) as answer,
        ):
            assert answer.status == 200
            await answer.content.readexactly(1920)  # it is truncated later: this model does not end by itself
    reference = store.reference("anna")
    cloned = voice_of(talker.voices, ask(1, "", "", reference=reference)).cloned
    assert len(talker.voices.cache) == 1
    assert encoder.passes == ([] if ref_text is None else [1]), "once, and only if its codes are used"
    x_vector = talker.voices._speaker.encode([reference.samples])[0].numpy()
    np.testing.assert_allclose(cloned.x_vector, x_vector, rtol=0.0, atol=2e-6)
    codes = lone_codes(tiny("shallow_base"), ask(1, "Hello the world.", "", seed=5, frames=12), cloned)
    before = np.empty((0, 16), np.int64) if cloned.reference is None else cloned.reference.codes
    expected = decoded(np.concatenate([before, codes]))[len(before) * 1920 :]
    for pcm in streams:
        assert np.abs(np.frombuffer(pcm, "<i2") / 32768 - expected).max() < 1.1 / 32768


async def test_an_unknown_name_is_rejected(built: Callable[[str], Model], tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    options = ServerOptions(fetch_reference=References(store), voices=store)
    async with (
        tone_server(built("shallow_base"), config=QUEUE, options=options) as (url, _server),
        asyncio.timeout(60),
        aiohttp.ClientSession() as http,
        http.post(f"{url}/v1/audio/speech", json={"input": "Hello.", "voice": "nobody"}) as answer,
    ):
        assert answer.status == 400
        assert (await answer.json())["error"]["code"] == "unknown_voice"
