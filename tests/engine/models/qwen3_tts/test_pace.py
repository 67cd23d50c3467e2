"""Speech that ran away or broke off is told from any other, and no ordinary reading is taken for either."""

from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.engine.models.qwen3_tts.pace import least_frames, most_frames


@given(st.text())
def test_bounds_are_there_for_any_text(text: str) -> None:
    assert 0 <= least_frames(text) <= len(text)


@given(st.text(), st.text())
def test_more_text_never_makes_for_a_smaller_bound(text: str, more: str) -> None:
    assert least_frames(text) <= least_frames(text + more)


def test_short_texts_and_what_is_not_read_out_may_be_as_short_as_they_like() -> None:
    assert [least_frames(text) for text in ("", "Yes.", "Oh, I see now!", "!" * 500, "😀 " * 99, "你好吗")] == [0] * 6


def test_a_sentence_is_a_quarter_of_an_ordinary_reading_at_least() -> None:
    # 44 letters are 2.8 s at 15.6 a second, or 35 frames.
    assert least_frames("The quick brown fox jumps over the lazy dog near it all.") == 8
    assert least_frames("今天天气很好，我们去公园吧") == 7


def test_the_upper_bound_is_several_times_an_ordinary_reading_of_any_length() -> None:
    for tokens in range(1, 400):
        assert 3.4 * 3.7 * tokens < most_frames(tokens) < 6 * 3.7 * tokens + 60
