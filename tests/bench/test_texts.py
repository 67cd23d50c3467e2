"""Sentences of the load tests: lengths of real speech, one sentence each, reproducible by seed."""

from random import Random
from statistics import median

import pytest

from bench.texts import SENTENCES, pick_text, spoken_s
from realtime_tts.engine.api import SynthesisRequest
from realtime_tts.engine.models import tone
from realtime_tts.text.splitter import SentenceSplitter


def test_they_have_the_durations_of_real_utterances() -> None:
    durations_s = [spoken_s(text) for text in SENTENCES]
    assert len(set(SENTENCES)) == len(SENTENCES) >= 100
    assert min(durations_s) >= 2
    assert max(durations_s) <= 12
    assert median(durations_s) == pytest.approx(4.6, abs=0.3)
    # A long tail, as a lognormal distribution has: the mean well above the median, few very long ones.
    assert sum(durations_s) / len(durations_s) > 1.05 * median(durations_s)
    assert sum(duration_s > 9 for duration_s in durations_s) < len(durations_s) / 10


def test_each_is_one_sentence_for_the_server_with_the_stated_duration() -> None:
    for text in SENTENCES:
        splitter = SentenceSplitter(language="en", max_chars=300)
        assert [sentence.text for sentence in splitter.push(text) + splitter.finish()] == [text]
        frames = len(tone.codes(SynthesisRequest("r", "s", text, "tone_low")))
        assert spoken_s(text) == pytest.approx(frames * tone.info().frame_s), text


def test_the_same_seed_picks_the_same_texts() -> None:
    def picked(seed: int) -> list[str]:
        rng = Random(seed)
        return [pick_text(rng, sentences=2) for _ in range(20)]

    assert picked(1) == picked(1) != picked(2)
    assert picked(1)[0].count(".") + picked(1)[0].count("?") == 2
