"""The embedded voice as an engine meets it: built once, it speaks any text, whole or in chunks, the same."""

from pathlib import Path

import numpy as np
import pytest

from realtime_tts.engine.chunking import ChunkPlan
from realtime_tts.engine.models import kokoro
from realtime_tts.engine.models.kokoro.styles import load_styles
from realtime_tts.engine.stage import Model
from realtime_tts.errors import ModelNotUsable, NothingToSpeak
from tests.engine.models.kokoro.conftest import WHOLE, Array, Speaker

pytestmark = pytest.mark.model

SENTENCE = "The realtime voice server streams audio to every client over a single web socket connection."
SHORT = "Hello there, how can I help you today?"


def difference_db(sound: Array, reference: Array) -> float:
    return float(10 * np.log10(np.sum((sound - reference) ** 2) / np.sum(reference**2)))


def test_it_says_what_it_can_do(model: Model) -> None:
    assert model.info.default_voice == "af_heart"
    assert len(model.info.voices) == 28
    assert (model.info.sample_rate_hz, model.info.samples_per_frame, "speed" in model.info.fields) == (
        24_000,
        600,
        True,
    )
    assert [stage.name for stage in model.stages] == ["front", "code2wav"]


@pytest.mark.parametrize(
    "plan",
    [
        kokoro.CHUNK_PLAN,
        ChunkPlan(sizes=(7,), left_context_frames=8, right_context_frames=5),
        ChunkPlan(sizes=(1, 50), left_context_frames=4, right_context_frames=2),
    ],
)
def test_streamed_is_as_long_as_whole_and_sounds_like_it(speaker: Speaker, plan: ChunkPlan) -> None:
    whole = np.concatenate(speaker.say(SHORT))
    streamed = np.concatenate(speaker.say(SHORT, plan))
    assert len(streamed) == len(whole)
    assert np.abs(streamed).max() <= 1.0
    # As published, with four times the context, it is +2 dB: nothing in common but the loudness.
    assert difference_db(streamed, whole) < -6


def test_joints_are_no_rougher_than_the_speech_around_them(speaker: Speaker) -> None:
    chunks = speaker.say(SENTENCE, kokoro.CHUNK_PLAN)
    roughness = np.abs(np.diff(np.concatenate(chunks), n=2))
    joints = np.cumsum([len(chunk) for chunk in chunks])[:-1]
    at_joints = [roughness[joint - 4 : joint + 4].max() for joint in joints]
    assert np.median(at_joints) < np.percentile(roughness, 99)
    assert np.max(at_joints) < np.percentile(roughness, 99.9)


def test_the_same_request_sounds_the_same_twice(speaker: Speaker) -> None:
    for one, other in zip(
        speaker.say("Once more.", kokoro.CHUNK_PLAN), speaker.say("Once more.", kokoro.CHUNK_PLAN), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_the_first_sound_comes_within_150_ms_of_the_start(speaker: Speaker) -> None:
    for text in ("Hello there!", "Sure, I can help.", "Thanks."):
        sound = np.concatenate(speaker.say(text))
        audible = np.flatnonzero(np.abs(sound) > 0.01 * np.abs(sound).max())
        assert audible[0] < 0.15 * 24_000, text


def test_a_text_of_many_pieces_is_spoken_to_its_end(speaker: Speaker) -> None:
    text = "This sentence is here to be repeated until no single piece can hold it. " * 8
    one = len(speaker.frames(speaker.request(text[: len(text) // 8], speed=2.0)))
    request = speaker.request(text, speed=2.0)
    frames = speaker.frames(request)
    assert len(set(frames[:, -1].tolist())) > 1
    assert 0.6 * 8 * one < len(frames) < 1.1 * 8 * one
    plan = ChunkPlan(sizes=(150,), left_context_frames=8, right_context_frames=5)
    chunks = list(speaker.chunks(request, frames, plan))
    assert sum(len(chunk) for chunk in chunks) == 600 * len(frames)
    # Loud from first to last: no piece has been dropped.
    assert all(np.abs(chunk).max() > 0.05 for chunk in chunks[:-1])


@pytest.mark.parametrize(
    ("speed", "low", "high"), [(0.5, 1.6, 2.3), (2.0, 0.4, 0.65), (0.25, 3.0, 4.6), (4.0, 0.2, 0.5)]
)
def test_speed_changes_the_length(speaker: Speaker, speed: float, low: float, high: float) -> None:
    usual = len(speaker.frames(speaker.request(SENTENCE)))
    assert low < len(speaker.frames(speaker.request(SENTENCE, speed=speed))) / usual < high


@pytest.mark.parametrize("voice", ["am_michael", "bf_emma", "bm_george"])
def test_other_voices_speak(speaker: Speaker, voice: str) -> None:
    sound = np.concatenate(speaker.say("Good morning.", WHOLE, voice))
    assert 0.05 < np.abs(sound).max() <= 1.0


@pytest.mark.parametrize("text", ["", "…", "😀", "你好", "\ud800", "***"])
def test_text_without_words_is_refused(speaker: Speaker, text: str) -> None:
    assert isinstance(speaker.error(text), NothingToSpeak)


def test_a_warm_start_says_nothing_and_reads_no_wheel(cache_dir: Path, model: Model) -> None:
    lines: list[str] = []
    kokoro.build(threads=1, cache_dir=cache_dir, progress=lines.append)
    assert lines == []


def test_an_operators_directory_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotUsable, match=r"model\.onnx"):
        kokoro.build(model_dir=tmp_path, cache_dir=tmp_path)


def test_every_voice_that_is_announced_has_its_style(model: Model) -> None:
    assert set(model.info.voice_names) == set(load_styles())
