"""The limits detect speech that ran away or broke off, and accept every ordinary reading."""

from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.models.qwen3.length_limits import max_frames, min_frames


@settings(max_examples=50)
@given(st.text(), st.text())
def test_more_text_never_lowers_the_minimum(text: str, more: str) -> None:
    assert 0 <= min_frames(text) <= len(text)
    assert min_frames(text) <= min_frames(text + more)


def test_short_and_silent_texts_have_no_minimum() -> None:
    assert [min_frames(text) for text in ("", "Yes.", "Oh, I see now!", "!" * 500, "😀 " * 99, "你好吗")] == [0] * 6


def test_the_minimum_is_a_quarter_of_an_ordinary_reading() -> None:
    # 44 letters are 2.8 s at 15.6 per second, or 35 frames.
    assert min_frames("The quick brown fox jumps over the lazy dog near it all.") == 8
    assert min_frames("今天天气很好，我们去公园吧") == 7


def test_the_maximum_is_several_times_an_ordinary_reading() -> None:
    for tokens in range(1, 400):
        assert 3.4 * 3.7 * tokens < max_frames(tokens) < 6 * 3.7 * tokens + 60
