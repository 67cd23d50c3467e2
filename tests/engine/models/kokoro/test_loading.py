"""Tests of the whole voice: any text, in one piece or in chunks, with the same sound."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from realtime_tts.clock import VirtualClock
from realtime_tts.engine.api import Submit
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models.kokoro import loading as kokoro
from realtime_tts.engine.models.kokoro.styles import load_styles
from realtime_tts.engine.scheduling.chunking import ChunkPlan
from realtime_tts.engine.stage import Model, StageInput, StageOutput
from realtime_tts.errors import ModelNotUsable, NothingToSpeak
from tests.cluster.moved import speak_and_lose
from tests.engine.models.kokoro.conftest import WHOLE, Array, Speaker, real_voice
from tests.fakes import make_engine, run_to_end, samples_of

SENTENCE = "The realtime voice server streams audio to every client over a single web socket connection."
SHORT = "Hello there, how can I help you today?"


def difference_db(sound: Array, reference: Array) -> float:
    return float(10 * np.log10(np.sum((sound - reference) ** 2) / np.sum(reference**2)))


@real_voice
def test_the_model_announces_its_capabilities(model: Model) -> None:
    assert model.info.default_voice == "af_heart"
    assert len(model.info.voices) == 28
    assert (model.info.sample_rate_hz, model.info.samples_per_frame) == (24_000, 600)
    assert [spec.name for spec in model.specs] == ["acoustic", "code2wav"]
    assert model.info.fields == {"speed", "word_timestamps", "pronunciations"}
    assert set("ˈdʒɹoʊː") <= model.info.ipa_symbols
    assert set(model.info.voice_names) == set(load_styles())
    assert kokoro.info() == model.info


@real_voice
def test_streamed_sound_is_as_long_as_the_whole_and_sounds_the_same(speaker: Speaker) -> None:
    check_chunks(speaker, kokoro.CHUNK_PLAN)


@pytest.mark.slow
@real_voice
def test_the_same_holds_for_other_chunks(speaker: Speaker) -> None:
    check_chunks(
        speaker,
        ChunkPlan(sizes=(7,), left_context_frames=8, right_context_frames=5),
        ChunkPlan(sizes=(1, 50), left_context_frames=4, right_context_frames=2),
    )


def check_chunks(speaker: Speaker, *plans: ChunkPlan) -> None:
    whole = np.concatenate(speaker.say(SHORT))
    for plan in plans:
        streamed = np.concatenate(speaker.say(SHORT, plan))
        assert len(streamed) == len(whole), plan
        assert np.abs(streamed).max() <= 1.0, plan
        # As exported, with four times the context, it is +2 dB: only the loudness is the same.
        assert difference_db(streamed, whole) < -6, plan


@real_voice
def test_joints_are_no_rougher_than_the_speech_around_them(speaker: Speaker) -> None:
    chunks = speaker.say(SENTENCE, kokoro.CHUNK_PLAN)
    roughness = np.abs(np.diff(np.concatenate(chunks), n=2))
    joints = np.cumsum([len(chunk) for chunk in chunks])[:-1]
    at_joints = [roughness[joint - 4 : joint + 4].max() for joint in joints]
    assert np.median(at_joints) < np.percentile(roughness, 99)
    assert np.max(at_joints) < np.percentile(roughness, 99.9)


@real_voice
def test_the_same_request_sounds_the_same_twice(speaker: Speaker) -> None:
    first, second = (np.concatenate(speaker.say("Once more.", kokoro.CHUNK_PLAN)) for _ in range(2))
    np.testing.assert_allclose(first, second, atol=1e-4)


@real_voice
def test_the_first_sound_comes_within_150_ms_of_the_start(speaker: Speaker) -> None:
    for text in ("Hello there!", "Sure, I can help.", "Thanks."):
        sound = np.concatenate(speaker.say(text))
        audible = np.flatnonzero(np.abs(sound) > 0.01 * np.abs(sound).max())
        assert audible[0] < 0.15 * 24_000, text


@pytest.mark.slow
@real_voice
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
    # Loud from first to last: no piece is missing.
    assert all(np.abs(chunk).max() > 0.05 for chunk in chunks[:-1])


@real_voice
def test_speed_changes_the_length(speaker: Speaker) -> None:
    normal = len(speaker.frames(speaker.request(SHORT)))
    for speed, low, high in ((0.5, 1.6, 2.3), (2.0, 0.4, 0.65), (0.25, 3.0, 4.6), (4.0, 0.2, 0.5)):
        frames = len(speaker.frames(speaker.request(SHORT, speed=speed)))
        assert low < frames / normal < high, f"speed {speed}"


TRICKY = (
    "Hello there.",
    "😀 Dr. O'Neil paid $5.20 — “really?” — e.g. 3/4 at 10:30pm, https://example.com/docs 1,234.56 😀",
    "See you Nov 29th, 2026 or $1.5 million later…",
    "- 10 km -5 to 2 + 2 = 4 .",
    "你好 hello 你好",
    "This sentence is here to be repeated until no single piece can hold it, — see? " * 6,
    "https://example.com/" + "path/" * 60 + " is long",
)


@pytest.mark.slow
@real_voice
def test_every_word_has_a_time_in_order_and_inside_the_sound(speaker: Speaker) -> None:
    for text in TRICKY:
        for speed in (0.5, 2.0):
            check_word_times(speaker, text, speed)


def check_word_times(speaker: Speaker, text: str, speed: float) -> None:
    frames, words = speaker.frames_and_words(speaker.request(text, speed=speed))
    case = f"{text!r} at speed {speed}"
    assert [text[word.start : word.end] for word in words] == text.split(), case
    times = [time for word in words for time in (word.start_s, word.end_s)]
    assert times == sorted(times), case
    assert 0 <= times[0] <= times[-1] <= len(frames) * 0.025, case
    for word in words:
        if re.search(r"[A-Za-z0-9]", text[word.start : word.end]):
            assert word.start_s < word.end_s, case


@real_voice
def test_a_word_after_a_pause_begins_where_its_sound_does(speaker: Speaker) -> None:
    text = "I waited. Nobody came. Perhaps tomorrow."
    request = speaker.request(text)
    frames, words = speaker.frames_and_words(request)
    sound = np.concatenate(list(speaker.chunks(request, frames, WHOLE)))
    for word in (words[2], words[4]):
        start = round(word.start_s * 24_000)
        before = np.abs(sound[start - 3600 : start - 1800]).max()
        after = np.abs(sound[start : start + 3600]).max()
        assert before < 0.1 * after, text[word.start : word.end]


@real_voice
def test_a_pronunciation_changes_only_its_word(speaker: Speaker) -> None:
    request = speaker.request("Ask Nguyen about it.")
    own = dataclasses.replace(request, request_id="own", pronunciations=(("Nguyen", "ˈwɪn"),))
    (_, usual), (_, respelled) = speaker.frames_and_words(request), speaker.frames_and_words(own)
    assert [(word.start, word.end) for word in usual] == [(word.start, word.end) for word in respelled]
    assert respelled[1].end_s - respelled[1].start_s < usual[1].end_s - usual[1].start_s


@pytest.mark.slow
@real_voice
def test_other_voices_speak(speaker: Speaker) -> None:
    for voice in ("am_michael", "bf_emma", "bm_george"):
        sound = np.concatenate(speaker.say("Good morning.", WHOLE, voice))
        assert 0.05 < np.abs(sound).max() <= 1.0, voice


@real_voice
def test_text_without_words_is_refused(speaker: Speaker) -> None:
    for text in ("", "…", "😀", "你好", "\ud800", "***"):
        with pytest.raises(NothingToSpeak):
            speaker.frames(speaker.request(text))


@pytest.mark.slow
@real_voice
def test_a_second_start_uses_the_cache_and_reports_no_progress(cache_dir: Path, model: Model) -> None:
    lines: list[str] = []
    kokoro.build(threads=1, cache_dir=cache_dir, progress=lines.append)
    assert lines == []


def test_a_directory_without_a_model_is_refused(tmp_path: Path) -> None:
    for rewrite in (True, False):
        with pytest.raises(ModelNotUsable, match=r"model\.onnx"):
            kokoro.build(model_dir=tmp_path, cache_dir=tmp_path, rewrite=rewrite)


class TimedStage:
    """A stage with a linear cost, doubled for a length's first run."""

    def __init__(self, clock: VirtualClock, base_s: float, frame_s: float) -> None:
        self._clock, self._base_s, self._frame_s = clock, base_s, frame_s
        self._seen: set[float] = set()
        self.active: set[str] = set()

    def run(self, batch: Sequence[StageInput]) -> Sequence[StageOutput]:
        (row,) = batch
        frames = kokoro.CHUNK_PLAN.cost_frames(row.chunk) if row.chunk else 0.0
        factor = 1 if frames in self._seen else 2
        self._seen.add(frames)
        self.active.add(row.request.request_id)
        self._clock.advance(factor * (self._base_s + self._frame_s * frames))
        return [StageOutput(np.zeros((130, 1), np.float32))]

    def release(self, request_id: str) -> None:
        self.active.discard(request_id)


def test_the_costs_of_a_sentence_and_of_its_chunks_are_measured_after_a_warm_up() -> None:
    clock = VirtualClock()
    acoustic, vocoder = TimedStage(clock, 0.057, 0.0), TimedStage(clock, 0.014, 0.0036)
    costs = kokoro._measure(acoustic, vocoder, kokoro.CHUNK_PLAN, clock)
    assert costs.prefill_s == pytest.approx(kokoro.SAFETY_FACTOR * 0.057)
    assert costs.decode.base_s == pytest.approx(kokoro.SAFETY_FACTOR * 0.014)
    assert costs.decode.per_unit_s == pytest.approx(kokoro.SAFETY_FACTOR * 0.0036)
    assert not acoustic.active | vocoder.active


@pytest.mark.slow
@real_voice
def test_a_sentence_that_another_replica_continues_has_its_whole_length_and_no_step_at_the_joint(
    speaker: Speaker,
) -> None:
    request = dataclasses.replace(speaker.request(SHORT), initial_codec_chunk_frames=20)
    whole = np.concatenate(speaker.say(SHORT, kokoro.CHUNK_PLAN))
    moved = speak_and_lose(lambda: speaker.model, request, packets=1)
    assert len(moved.samples) == len(whole)
    assert moved.step_at_joint() <= moved.usual_steps()
    assert np.corrcoef(loudness(moved.samples), loudness(whole))[0, 1] > 0.99


def loudness(samples: Array) -> Array:
    """Of every 25 ms."""
    usable = samples[: len(samples) // 600 * 600]
    return np.asarray(np.sqrt(np.mean(usable.reshape(-1, 600) ** 2, axis=1)), np.float32)


def test_cores_are_divided_into_lanes() -> None:
    for cores, threads, lanes, expected in (
        (1, None, None, (1, 1)),
        (2, None, None, (2, 1)),
        (16, None, None, (4, 4)),
        (2, None, 2, (1, 2)),
        (16, 8, None, (8, 1)),
        (16, 1, 16, (1, 16)),
    ):
        assert kokoro.division_of(cores, threads, lanes) == expected, (cores, threads, lanes)
    with pytest.raises(ModelNotUsable, match="lanes must be at least 1"):
        kokoro.division_of(4, None, 0)


@pytest.mark.slow
@real_voice
def test_two_lanes_of_one_thread_speak_two_requests_as_one_lane_does(speaker: Speaker, cache_dir: Path) -> None:
    model = kokoro.build(threads=1, lanes=2, cache_dir=cache_dir)
    assert model.lanes == ("cpu-0", "cpu-1")
    requests = [dataclasses.replace(speaker.request(text), streamed=False) for text in (SHORT, "Once more.")]
    engine, events = make_engine(model, config=EngineConfig(max_wait_s=None))
    for request in requests:
        engine.handle(Submit(request))
    run_to_end(engine)
    for request in requests:
        spoken = sum(len(part) for part in samples_of(events, request.request_id))
        assert spoken == len(speaker.frames(request)) * 600
