"""The embedded voice as an engine meets it: built once, it speaks any text, whole or in chunks, the same."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from realtime_tts.clock import VirtualClock
from realtime_tts.engine.models.kokoro import loading as kokoro
from realtime_tts.engine.models.kokoro.styles import load_styles
from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.stage import Model, StageInput, StageOutput
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
    assert [spec.name for spec in model.specs] == ["front", "code2wav"]
    assert {"word_timestamps", "pronunciations"} <= model.info.fields
    assert set("ˈdʒɹoʊː") <= model.info.ipa_symbols


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


TRICKY = (
    "Hello there.",
    "😀 Dr. O'Neil paid $5.20 — “really?” — e.g. 3/4 at 10:30pm, https://example.com/docs 1,234.56 😀",
    "See you Nov 29th, 2026 or $1.5 million later…",
    "- 10 km -5 to 2 + 2 = 4 .",
    "你好 hello 你好",
    "This sentence is here to be repeated until no single piece can hold it, — see? " * 6,
    "https://example.com/" + "path/" * 60 + " is long",
)


@pytest.mark.parametrize("text", TRICKY)
@pytest.mark.parametrize("speed", [0.5, 2.0])
def test_every_word_has_a_time_in_order_and_inside_the_sound(speaker: Speaker, text: str, speed: float) -> None:
    frames, words = speaker.read(speaker.request(text, speed=speed))
    assert [text[word.start : word.end] for word in words] == text.split()
    times = [time for word in words for time in (word.start_s, word.end_s)]
    assert times == sorted(times)
    assert 0 <= times[0] <= times[-1] <= len(frames) * 0.025
    for word in words:
        if re.search(r"[A-Za-z0-9]", text[word.start : word.end]):
            assert word.start_s < word.end_s


def test_a_word_after_a_pause_begins_where_its_sound_does(speaker: Speaker) -> None:
    text = "I waited. Nobody came. Perhaps tomorrow."
    request = speaker.request(text)
    frames, words = speaker.read(request)
    sound = np.concatenate(list(speaker.chunks(request, frames, WHOLE)))
    for word in (words[2], words[4]):
        start = round(word.start_s * 24_000)
        before = np.abs(sound[start - 3600 : start - 1800]).max()
        after = np.abs(sound[start : start + 3600]).max()
        assert before < 0.1 * after, text[word.start : word.end]


def test_a_pronunciation_changes_its_word_alone(speaker: Speaker) -> None:
    text = "Ask Nguyen about it."
    request = speaker.request(text)
    own = dataclasses.replace(request, request_id="own", pronunciations=(("Nguyen", "ˈwɪn"),))
    (_, usual), (_, said) = speaker.read(request), speaker.read(own)
    assert [(word.start, word.end) for word in usual] == [(word.start, word.end) for word in said]
    assert said[1].end_s - said[1].start_s < usual[1].end_s - usual[1].start_s


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


class Timed:
    """A stage that takes as long as a line says, and twice as long at first."""

    name = lane = "timed"
    max_batch = 1

    def __init__(self, clock: VirtualClock, base_s: float, frame_s: float) -> None:
        self._clock, self._base_s, self._frame_s = clock, base_s, frame_s
        self._seen: set[float] = set()
        self.held: set[str] = set()

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        (row,) = batch
        frames = kokoro.CHUNK_PLAN.cost_frames(row.chunk) if row.chunk else 0.0
        slower = 1 if frames in self._seen else 2
        self._seen.add(frames)
        self.held.add(row.request.request_id)
        self._clock.advance(slower * (self._base_s + self._frame_s * frames))
        return [StageOutput(np.zeros((130, 1), np.float32))]

    def release(self, request_id: str) -> None:
        self.held.discard(request_id)


def test_what_a_sentence_and_its_chunks_cost_is_measured_once_they_are_warm() -> None:
    clock = VirtualClock()
    front, vocoder = Timed(clock, 0.057, 0.0), Timed(clock, 0.014, 0.0036)
    costs = kokoro._measured(front, vocoder, clock)
    assert costs.prefill_s == pytest.approx(kokoro.PRUDENCE * 0.057)
    assert costs.decode.base_s == pytest.approx(kokoro.PRUDENCE * 0.014)
    assert costs.decode.per_unit_s == pytest.approx(kokoro.PRUDENCE * 0.0036)
    assert not front.held | vocoder.held
