"""The judgement of the voice: words as they are spoken, what is wrong among them, and when it has passed."""

import pytest

from bench import kokoro_quality
from bench.kokoro_quality import Judges, Row, judge, passed, reported, words, wrong_words
from realtime_tts.engine.models import tone
from tests.fakes import slots


class Deaf(Judges):
    """Hears always the same, and finds it fair."""

    def __init__(self, heard: str) -> None:
        self.heard = heard
        self.lengths: list[int] = []

    def hear(self, samples: kokoro_quality.Array) -> str:
        self.lengths.append(len(samples))
        return self.heard

    def rate(self, samples: kokoro_quality.Array) -> dict[str, float]:
        return {"ovrl_mos": 3.5, "sig_mos": 4.0}


def row(wer: float = 0.05, dnsmos: float = 3.6, sentences: str = "ordinary", mode: str = "streamed") -> Row:
    return Row(sentences, mode, "af_heart", wer, dnsmos, 4.0, 100.0, 0.5)


@pytest.mark.parametrize(
    ("expected", "heard", "wrong"),
    [("a b c", "a b c", 0), ("a b c", "a c", 1), ("a b c", "x a b c", 1), ("a b c", "a x c", 1), ("a b", "", 2)],
)
def test_wrong_words_are_counted(expected: str, heard: str, wrong: int) -> None:
    assert wrong_words(expected.split(), heard.split()) == wrong


def test_both_sides_are_put_in_words() -> None:
    assert words("At 3:30 p.m.") == ["at", "three", "thirty", "pm"]


@pytest.mark.parametrize("mode", ["whole", "streamed"])
def test_every_sentence_is_spoken_heard_and_rated(mode: str) -> None:
    model, judges = tone.build(), Deaf("hello there")
    found = judge(model, judges, "ordinary", ("Hello there.", "Hello world."), mode, "tone_low")
    assert (found.wer, found.dnsmos_overall, found.dnsmos_signal) == (0.25, 3.5, 4.0)
    assert judges.lengths == [round(10 * 0.08 * kokoro_quality.JUDGE_HZ)] * 2
    assert found.rtf >= 0
    assert slots(model) == 0


def test_it_passes_by_what_is_streamed_of_ordinary_sentences() -> None:
    assert passed([row(), row(wer=0.5, sentences="written"), row(wer=0.5, mode="whole")])
    assert not passed([row(), row(wer=0.11)])
    assert not passed([row(dnsmos=3.2)])
    assert reported([row(dnsmos=3.2)], {}).headline == "NOT passed"
    (table,) = reported([row()], {}).tables
    assert table.rows == (("ordinary", "streamed", "af_heart", 0.05, 3.6, 4.0, 100.0, 0.5),)
