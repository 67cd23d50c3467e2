"""A recording becomes the same voice at any rate, is listened to once, and is refused where it can be none."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import numpy as np

from realtime_tts.engine.api import Reference, SynthesisRequest
from realtime_tts.engine.models.qwen3_tts.stages import TalkerStage
from realtime_tts.engine.models.qwen3_tts.voices import ReadyVoice, VoiceMaker
from realtime_tts.errors import InvalidConfig
from tests.engine.models.qwen3_tts.make_codec import speech
from tests.engine.models.qwen3_tts.pipeline import build

SAMPLES = speech(1.5, seed=3)
REFERENCE = Reference("digest", SAMPLES, 24_000, "the hello")


@pytest.fixture(scope="module")
def maker(whole: Callable[[str], Path]) -> VoiceMaker:
    stage = build(whole("base")).stages[0]
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
