"""Properties of characters that decide what is spoken and where text may be divided."""

from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.text.unicode import (
    MAX_PRINTED_CHARS,
    is_joined,
    is_speakable,
    is_surrogate_pair,
    is_word,
    printable,
    without_surrogates,
)


def test_letters_numbers_and_symbols_with_a_name_are_speakable() -> None:
    for text in ("a", "Hi!", "7", "½", "你", "שלום", "$", "€", "50%", "%", "°", "👍 ok", "\ufffdx"):
        assert is_speakable(text), text


def test_punctuation_emoji_white_space_and_control_characters_are_not_speakable() -> None:
    for text in (
        *(
            "",
            " \n",
            "...",
            "—",
            "🎉",
            "❤\ufe0f",
            "👨\u200d👩\u200d👧",
            "\x00\x07",
            "\ufffd",
            "\ud83d!",
            "====",
            "***",
            "\u0301",
        ),
    ):
        assert not is_speakable(text), ascii(text)


def test_letters_that_join_their_neighbours_make_words() -> None:
    for char, expected in (("a", True), ("7", True), ("é", True), ("", False), (".", False), ("好", False)):
        assert is_word(char) is expected, char


def test_parts_of_one_visible_character_are_joined() -> None:
    for before, after in (
        ("e", "\u0301"),
        ("👨", "\u200d"),
        ("👍", "🏽"),
        ("🇩", "🇪"),
        ("❤", "\ufe0f"),
        ("\ud83d", "\ude00"),
    ):
        assert is_joined(before, after), ascii(before + after)
    assert not is_joined("a", "b")
    assert not is_surrogate_pair("\ude00", "\ud83d")


@given(st.text(st.characters(codec=None), max_size=20))
def test_no_surrogate_is_left(text: str) -> None:
    repaired = without_surrogates(text)
    assert repaired == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    repaired.encode("utf-8")


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=300))
def test_any_text_can_be_printed(text: str) -> None:
    printable(text).encode()
    assert len(printable(text)) <= MAX_PRINTED_CHARS
