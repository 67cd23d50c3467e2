"""Whole words are respelled as the client wants, the longest first, and every offset leads back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.errors import InvalidConfig
from realtime_tts.text.offsets import AlignedText
from realtime_tts.text.pronunciations import NO_PRONUNCIATIONS, Pronunciations

WORDS = {
    "SQL": "sequel",
    "nginx": "engine x",
    "C++": "see plus plus",
    "C": "see",
    ".NET": "dot net",
    "New York": "Nuu York",
    "York": "/jɔːk/",
    "北京": "贝京",
    "can": "kan",
    "3": "three",
    "İzmir": "eezmir",
    "λόγος": "logos",
}
TABLE = [
    ("SQL, sql and MySQL", "sequel, sql and MySQL"),
    ("Nginx NGINX nginxs xnginx nginx's", "engine x engine x nginxs xnginx engine x's"),
    ("C++ c++, C. C++11 (C++)", "see plus plus see plus plus, see. see plus plus 11 (see plus plus)"),
    ("ASP.NET .NET", "ASP dot net dot net"),
    ("New York, new\u00a0york, New  York", "Nuu York, Nuu York, New  York"),
    ("我在北京住 北京", "我在贝京住 贝京"),
    ("用nginx吧", "用engine x吧"),
    ("can can't can’t cans can.", "kan can't can’t cans kan."),
    ("3 3.14 1.3 3, 3. 33 3%", "three 3.14 1.3 three, three. 33 three%"),
    ("İZMİR izmir λόγοσ ΛΌΓΟΣ", "eezmir eezmir logos logos"),
    ("can\u0301 can", "can\u0301 kan"),
    ("", ""),
]


def test_whole_words_are_respelled() -> None:
    for text, said in TABLE:
        assert Pronunciations(WORDS).respell(text).text == said, text


def test_every_offset_leads_back_to_the_word() -> None:
    text = "Use SQL on C++11."
    respelled = Pronunciations(WORDS).respell(text)
    assert respelled.text == "Use sequel on see plus plus 11."
    at = respelled.text.index("quel")
    assert respelled.source(at) == text.index("SQL")
    assert text[respelled.source(at) : respelled.source_end(at + 2)] == "SQL"
    end = respelled.text.index("11")
    assert text[respelled.source(end) : respelled.source_end(end + 2)] == "11"
    assert respelled.source(len(respelled.text)) == respelled.source_end(len(respelled.text)) == len(text)


@given(
    st.dictionaries(
        st.text("abAB+. 好İ'", min_size=1, max_size=4), st.text("xy/ 好", min_size=1, max_size=4), max_size=8
    ),
    st.text("abAB+. 好İß'\u0301\ud83d\n3", max_size=30),
)
def test_offsets_are_in_order_and_other_text_stays(words: dict[str, str], text: str) -> None:
    try:
        pronunciations = Pronunciations(words)
    except InvalidConfig:
        return
    respelled = pronunciations.respell(text)
    sources = [respelled.source(at) for at in range(len(respelled.text) + 1)]
    ends = [respelled.source_end(at) for at in range(len(respelled.text) + 1)]
    assert sources == sorted(sources)
    assert ends == sorted(ends)
    assert sources[-1] == ends[-1] == len(text)
    for at, char in enumerate(respelled.text):
        original = text[sources[at] : ends[at + 1]]
        is_word = any(Pronunciations({word: "x"}).respell(original).text == "x" for word in pronunciations.words)
        assert original == char or is_word, (char, original)
    assert all(word in text and ipa for word, ipa in pronunciations.ipa_in(text))


def test_ipa_is_not_respelled_and_found_as_written() -> None:
    pronunciations = Pronunciations(WORDS)
    assert pronunciations.ipa == (("York", "jɔːk"),)
    assert pronunciations.ipa_in("York, YORK, York and Yorks") == (("York", "jɔːk"), ("YORK", "jɔːk"))
    assert pronunciations.ipa_in("New York") == ()  # that one is respelled as a whole
    assert pronunciations.respell("York") == AlignedText.of("York")


def test_the_word_as_written_takes_precedence() -> None:
    pronunciations = Pronunciations({"polish": "shine", "Polish": "from Poland", "US": "you ess"})
    assert pronunciations.respell("Polish polish POLISH US us Us").text == "from Poland shine shine you ess us Us"


def test_pronunciations_that_cannot_be_spoken_are_refused() -> None:
    refused: list[dict[Any, Any]] = [
        {"": "a"},
        {" \u2028": "a"},
        {"a": ""},
        {"a": "  "},
        {"a": "//"},
        {"a": "/ /"},
        {"a": "b\nc"},
        {"a\x00": "b"},
        {"a" * 201: "b"},
        {"a": "b" * 201},
        {f"w{at}": "x" for at in range(1001)},
        {"a": 1},
        {1: "a"},
    ]
    for words in refused:
        with pytest.raises(InvalidConfig, match=r"^pronunciations: "):
            Pronunciations(words)


def test_the_same_words_are_equal() -> None:
    assert Pronunciations({"a": "b"}) == Pronunciations({"a": "b"}) != NO_PRONUNCIATIONS
    assert hash(Pronunciations({"a": "b"})) == hash(Pronunciations({"a": "b"}))
    assert NO_PRONUNCIATIONS.respell("a b") == AlignedText.of("a b")


def test_words_of_all_lengths_that_nearly_match_change_nothing() -> None:
    pronunciations = Pronunciations({"我" * length + "你": "x" for length in range(1, 200)})
    assert pronunciations.respell("我" * 5_000) == AlignedText.of("我" * 5_000)
