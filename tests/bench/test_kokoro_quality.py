"""Speech quality of the voice: normalised words, word errors, and the pass criterion."""

from bench import kokoro_quality
from bench.kokoro_quality import Judges, Row, judge, passed, result_of, words, wrong_words
from realtime_tts.engine.models import tone
from tests.fakes import slots


class FixedJudges(Judges):
    """Always the same transcription and rating."""

    def __init__(self, transcription: str) -> None:
        self.transcription = transcription
        self.lengths: list[int] = []

    def transcribe(self, samples: kokoro_quality.Array) -> str:
        self.lengths.append(len(samples))
        return self.transcription

    def rate(self, samples: kokoro_quality.Array) -> dict[str, float]:
        return {"ovrl_mos": 3.5, "sig_mos": 4.0}


def row(wer: float = 0.05, dnsmos: float = 3.6, sentences: str = "ordinary", mode: str = "streamed") -> Row:
    return Row(sentences, mode, "af_heart", wer, dnsmos, 4.0, 100.0, 0.5)


def test_wrong_words_are_counted() -> None:
    for expected, recognised, wrong in (
        *(("a b c", "a b c", 0), ("a b c", "a c", 1), ("a b c", "x a b c", 1), ("a b c", "a x c", 1), ("a b", "", 2)),
    ):
        assert wrong_words(expected.split(), recognised.split()) == wrong, (expected, recognised)


def test_text_is_converted_to_words() -> None:
    assert words("At 3:30 p.m.") == ["at", "three", "thirty", "pm"]


def test_every_sentence_is_spoken_transcribed_and_rated() -> None:
    for mode in ("whole", "streamed"):
        model, judges = tone.build(), FixedJudges("hello there")
        found = judge(model, judges, "ordinary", ("Hello there.", "Hello world."), mode, "tone_low")
        assert (found.wer, found.dnsmos_overall, found.dnsmos_signal) == (0.25, 3.5, 4.0), mode
        assert judges.lengths == [round(10 * 0.08 * kokoro_quality.JUDGE_HZ)] * 2
        assert slots(model) == 0


def test_streamed_ordinary_sentences_decide_whether_it_passes() -> None:
    assert passed([row(), row(wer=0.5, sentences="written"), row(wer=0.5, mode="whole")])
    assert not passed([row(), row(wer=0.11)])
    assert not passed([row(dnsmos=3.2)])
    assert result_of([row(dnsmos=3.2)], {}).headline == "NOT passed"
    (table,) = result_of([row()], {}).tables
    assert table.rows == (("ordinary", "streamed", "af_heart", 0.05, 3.6, 4.0, 100.0, 0.5),)
