"""A recording becomes the same voice at any rate, is listened to once, and is refused where it can be none."""

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
from realtime_tts.engine.models.qwen3_tts.code2wav import Code2Wav
from realtime_tts.engine.models.qwen3_tts.codec_encoder import CodecEncoder
from realtime_tts.engine.models.qwen3_tts.stages import TalkerStage
from realtime_tts.engine.models.qwen3_tts.voices import (
    PADDING,
    PASS_SAMPLES,
    ReadyVoice,
    VoiceMaker,
    _of_like_length,
    _Recording,
)
from realtime_tts.errors import InvalidConfig
from realtime_tts.server.app import ServerOptions
from realtime_tts.voices.references import References
from realtime_tts.voices.store import VoiceStore
from tests.base_client import base_client
from tests.engine.models.qwen3_tts.make_codec import speech
from tests.engine.models.qwen3_tts.pipeline import QUEUE, GetWhole, ask, build, decoded, lone_codes
from tests.engine.models.qwen3_tts.tiny import GetTiny
from tests.serving import tone_server

SAMPLES = speech(1.5, seed=3)
REFERENCE = Reference("digest", SAMPLES, 24_000, "the hello")


@pytest.fixture(scope="module")
def maker(whole: Callable[[str], Path]) -> VoiceMaker:
    stage = build(whole("base")).stage("talker")
    assert isinstance(stage, TalkerStage)
    assert stage.voices is not None
    return stage.voices


@pytest.fixture(autouse=True)
def _unknown(maker: VoiceMaker) -> None:
    maker.cache.clear()


def make(maker: VoiceMaker, reference: Reference | None = REFERENCE, embedding: Any = None) -> ReadyVoice:
    return maker.voice(SynthesisRequest("r", "s", "hi", "", reference=reference, speaker_embedding=embedding))


def test_a_recording_gives_an_x_vector_codes_and_a_decoder_that_has_heard_it(maker: VoiceMaker) -> None:
    voice = make(maker)
    assert voice.cloned.x_vector.shape == (64,)
    assert voice.cloned.reference is not None
    assert voice.cloned.reference.text == "the hello"
    assert voice.cloned.reference.codes.shape == (19, 16)  # 1.5 s at 12.5 frames, rounded up
    assert voice.decoder_state is not None
    assert voice.decoder_state.abs().sum() > 0


def test_the_x_vector_alone_is_the_same_without_the_rest(maker: VoiceMaker) -> None:
    alone = make(maker, replace(REFERENCE, x_vector_only=True, text=None))
    np.testing.assert_array_equal(alone.cloned.x_vector, make(maker).cloned.x_vector)
    assert alone.cloned.reference is None
    assert alone.decoder_state is None


@pytest.mark.parametrize("rate_hz", [16_000, 44_100, 48_000])
def test_another_rate_is_nearly_the_same_voice(maker: VoiceMaker, rate_hz: int) -> None:
    count = round(1.5 * rate_hz)
    low = np.interp(np.arange(count) / rate_hz, np.arange(len(SAMPLES)) / 24_000, SAMPLES).astype(np.float32)
    other = make(maker, Reference("other", low, rate_hz, x_vector_only=True)).cloned.x_vector
    own = make(maker, replace(REFERENCE, x_vector_only=True)).cloned.x_vector
    likeness = np.dot(other, own) / np.linalg.norm(other) / np.linalg.norm(own)
    assert likeness > 0.9


def test_a_recording_is_listened_to_once_whatever_is_said_in_it(maker: VoiceMaker) -> None:
    first, again = make(maker), make(maker, replace(REFERENCE, text="the world"))
    assert len(maker.cache) == 1
    assert first.decoder_state is again.decoder_state
    assert again.cloned.reference is not None
    assert again.cloned.reference.text == "the world"
    make(maker, replace(REFERENCE, x_vector_only=True))
    make(maker, replace(REFERENCE, key="another"))
    assert len(maker.cache) == 3


def test_an_embedding_goes_before_a_recording(maker: VoiceMaker) -> None:
    voice = make(maker, embedding=tuple(range(64)))
    np.testing.assert_array_equal(voice.cloned.x_vector, np.arange(64))
    assert voice.cloned.reference is None
    assert voice.decoder_state is None
    assert not len(maker.cache)


@pytest.mark.parametrize(
    "reference",
    [
        None,
        replace(REFERENCE, text=None),
        replace(REFERENCE, text=" \n"),
        replace(REFERENCE, samples=SAMPLES[:0]),
        replace(REFERENCE, samples=SAMPLES[:300]),
        replace(REFERENCE, samples=SAMPLES[:300], x_vector_only=True),
        replace(REFERENCE, samples=np.zeros(8000 * 61, np.float32), sample_rate_hz=8000),
    ],
)
def test_what_can_be_no_voice_is_refused_and_not_kept(maker: VoiceMaker, reference: Reference | None) -> None:
    with pytest.raises(InvalidConfig):
        make(maker, reference)
    assert not len(maker.cache)
    assert maker.decoder.arena.free == 1


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf, 1e30])
def test_samples_that_are_none_make_a_voice_of_finite_numbers(maker: VoiceMaker, poison: float) -> None:
    samples = SAMPLES.copy()
    samples[5000] = poison
    voice = make(maker, replace(REFERENCE, samples=samples))
    assert np.isfinite(voice.cloned.x_vector).all()
    assert voice.decoder_state is not None
    assert bool(voice.decoder_state.isfinite().all())


def test_silence_is_a_voice_too(maker: VoiceMaker) -> None:
    voice = make(maker, replace(REFERENCE, samples=np.zeros(30_000, np.float32)))
    assert np.isfinite(voice.cloned.x_vector).all()


# -- Several at once --------------------------------------------------------------------------------------------------


class CountingEncoder(CodecEncoder):
    """Remembers how many recordings each pass had."""

    def __init__(self, inner: CodecEncoder) -> None:
        super().__init__(inner._weights, inner._device)
        self.passes: list[int] = []

    def encode_all(self, recordings: Sequence[npt.NDArray[np.float32]]) -> list[npt.NDArray[np.int64]]:
        self.passes.append(len(recordings))
        return super().encode_all(recordings)


class CountingDecoder(Code2Wav):
    """Remembers the rows of each step."""

    def __init__(self, inner: Code2Wav, slots: int) -> None:
        super().__init__(inner.config, inner._weights, slots, torch.device("cpu"))
        self.steps: list[int] = []

    def step(self, codes: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        self.steps.append(len(index))
        return super().step(codes, index)


def several(maker: VoiceMaker, slots: int) -> tuple[VoiceMaker, CountingEncoder, CountingDecoder]:
    encoder, decoder = CountingEncoder(maker._encoder), CountingDecoder(maker.decoder, slots)
    return VoiceMaker(maker._speaker, encoder, decoder, maker.cache.limit_bytes), encoder, decoder


LENGTHS = (24_000, 24_001, 25_919, 30_000, 35_000)


def ask_for(number: int, **fields: Any) -> SynthesisRequest:
    samples = speech(1.5, seed=20 + number)[: LENGTHS[number % len(LENGTHS)]]
    reference = replace(Reference(f"key {number}", samples, 24_000, "the hello"), **fields)
    return SynthesisRequest(f"r{number}", "s", "hi", "", reference=reference)


@pytest.mark.parametrize("slots", [1, 2, 8])
def test_new_recordings_that_come_together_are_listened_to_in_one_pass(maker: VoiceMaker, slots: int) -> None:
    requests = [ask_for(n) for n in range(5)] + [ask_for(5, x_vector_only=True)]
    together, encoder, decoder = several(maker, slots)
    for found, request in zip(together.voices([*requests, requests[0]]), [*requests, requests[0]], strict=True):
        assert isinstance(found, ReadyVoice)
        alone = maker.voice(request)
        np.testing.assert_allclose(found.cloned.x_vector, alone.cloned.x_vector, rtol=0.0, atol=2e-6)
        assert (found.cloned.reference is None) == (alone.cloned.reference is None)
        if found.cloned.reference is not None and alone.cloned.reference is not None:
            np.testing.assert_array_equal(found.cloned.reference.codes, alone.cloned.reference.codes)
            assert found.decoder_state is not None
            assert alone.decoder_state is not None
            torch.testing.assert_close(found.decoder_state, alone.decoder_state, rtol=0.0, atol=1e-5)
    assert encoder.passes == [5]
    assert max(decoder.steps) == min(slots, 5)
    assert decoder.arena.free == slots
    assert len(together.cache) == 6
    assert together.cache.nbytes == maker.cache.nbytes, "nothing keeps the rest of its pass alive"
    together.voices(requests)
    assert encoder.passes == [5], "they are known now"


def test_one_that_can_be_no_voice_takes_nothing_from_the_others(maker: VoiceMaker) -> None:
    bad = [
        ask_for(0, samples=SAMPLES[:9], key="short"),
        ask_for(1, text=None, key="mute"),
        replace(ask_for(2), reference=None),
    ]
    good = ask_for(3)
    found = several(maker, 2)[0].voices([*bad, good])
    assert [type(each) for each in found] == [InvalidConfig] * 3 + [ReadyVoice]


def test_a_voice_too_large_to_be_kept_is_still_one(maker: VoiceMaker) -> None:
    small = VoiceMaker(maker._speaker, maker._encoder, maker.decoder, limit_bytes=0)
    assert [type(each) for each in small.voices([ask_for(0), ask_for(1)])] == [ReadyVoice] * 2
    assert not len(small.cache)


@given(st.lists(st.integers(1, 80) | st.integers(1, 1500), max_size=40))
@settings(deadline=None)
def test_a_pass_is_bounded_and_pads_little(thousands: list[int]) -> None:
    recordings = [
        _Recording(str(n), np.broadcast_to(np.float32(0), 1000 * count), x_vector_only=False)
        for n, count in enumerate(thousands)
    ]
    passes = list(_of_like_length(recordings))
    assert sorted(int(each.key) for one in passes for each in one) == list(range(len(recordings)))
    for one in passes:
        lengths = [len(each.samples) for each in one]
        assert len(one) == 1 or len(one) * max(lengths) <= PASS_SAMPLES
        assert max(lengths) <= PADDING * min(lengths)


# -- By name ----------------------------------------------------------------------------------------------------------


def upload(**texts: str) -> aiohttp.FormData:
    recording = io.BytesIO()
    soundfile.write(recording, SAMPLES, 24_000, format="WAV", subtype="PCM_16")
    data = aiohttp.FormData(default_to_multipart=True)
    for name, text in {"consent": "I am the speaker, and I agree.", **texts}.items():
        data.add_field(name, text)
    data.add_field("audio", recording.getvalue(), filename="me.wav", content_type="audio/wav")
    return data


@pytest.mark.parametrize("ref_text", ["the hello", None])
async def test_an_uploaded_voice_speaks_by_its_name_and_is_listened_to_once(
    whole: GetWhole, tiny: GetTiny, tmp_path: Path, ref_text: str | None
) -> None:
    model, store = build(whole("base")), VoiceStore(tmp_path)
    talker = model.stage("talker")
    assert isinstance(talker, TalkerStage)
    assert talker.voices is not None
    talker.voices, encoder, _decoder = several(talker.voices, 1)
    speaker = talker.voices._speaker
    options = ServerOptions(fetch_reference=References(store), voices=store)
    config: dict[str, Any] = {"response_format": "pcm", "stream_audio": True, "seed": 5, "max_new_tokens": 13}
    heard: list[bytes] = []
    async with tone_server(model, config=QUEUE, options=options) as (url, _server), asyncio.timeout(60):
        texts = {"name": "anna"} if ref_text is None else {"name": "anna", "ref_text": ref_text}
        async with aiohttp.ClientSession() as http, http.post(f"{url}/v1/audio/voices", data=upload(**texts)) as answer:
            assert answer.status == 201
        for _ in range(2):
            async with base_client(url, **config, voice="anna") as client:
                heard.append(b"".join((await client.speak("Hello the world.")).audio))
        async with (
            aiohttp.ClientSession() as http,
            http.post(
                f"{url}/v1/audio/speech",
                json={"input": "Hello the world.", "voice": "anna", "response_format": "pcm", "max_new_tokens": 13},
            ) as answer,
        ):
            assert answer.status == 200
            await answer.content.readexactly(1920)  # it breaks off later: this model finds no end of its own
    reference = store.reference("anna")
    cloned = talker.voices.voice(ask(1, "", "", reference=reference)).cloned
    assert len(talker.voices.cache) == 1
    assert encoder.passes == ([] if ref_text is None else [1]), "once, and only where its codes are used"
    np.testing.assert_allclose(cloned.x_vector, speaker.encode(reference.samples).numpy(), rtol=0.0, atol=2e-6)
    codes = lone_codes(tiny("base"), ask(1, "Hello the world.", "", seed=5, frames=12), cloned)
    before = np.empty((0, 16), np.int64) if cloned.reference is None else cloned.reference.codes
    expected = decoded(np.concatenate([before, codes]))[len(before) * 1920 :]
    for pcm in heard:
        assert np.abs(np.frombuffer(pcm, "<i2") / 32768 - expected).max() < 1.1 / 32768


async def test_a_name_that_was_never_uploaded_is_no_voice(whole: GetWhole, tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    options = ServerOptions(fetch_reference=References(store), voices=store)
    async with (
        tone_server(build(whole("base")), config=QUEUE, options=options) as (url, _server),
        asyncio.timeout(60),
        aiohttp.ClientSession() as http,
        http.post(f"{url}/v1/audio/speech", json={"input": "Hello.", "voice": "nobody"}) as answer,
    ):
        assert answer.status == 400
        assert (await answer.json())["error"]["code"] == "unknown_voice"
