"""Emoji are dropped whole; digits and signs that only look like them stay."""

from realtime_tts.text.cleaner import TextFilter
from tests.text.cleaning import assert_spoken


def test_emoji_are_dropped_whole() -> None:
    assert_spoken(
        [
            ("a😀b Great! 😀 Next 👨\u200d👩\u200d👧 x 🇩🇪 y 👍🏽.", "a b Great! Next x y ."),
            ("1\ufe0f\u20e3 one #\u20e3 2 © ™ ©\ufe0f 5 \ud83d\ude00z", "one 2 © ™ 5 z"),
            ("🏴\udb40\udc67\udb40\udc7fa 🙂\u200d\u2194b <think/>c", "a b c"),
        ]
    )
    assert_spoken([("**a** 😀b <br> `c` 7", "**a** b <br> `c` 7")], frozenset([TextFilter.EMOJI]))


def test_joiners_inside_words_stay() -> None:
    assert_spoken(
        [
            ("می\u200cخواهم क्\u200dष", "می\u200cخواهم क्\u200dष"),
        ]
    )
