"""Clean text: no mark-up, nothing joined or lost, and the same for any slicing."""

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from realtime_tts.text.cleaner import TextCleaner, TextFilter
from tests.text.cleaning import ALL, assert_spoken, check, clean

ATOMS = [
    *("*", "**", "***", "_", "__", "~", "~~", "`", "``", "```", "~~~", "#", "##", ">", "- ", "+ ", "• ", "1. ", "---"),
    *("[", "]", "(", ")", "](", "![", "[^", "][", "|", "| ", " |", "|-", ":-:", "\\", "!", "<", ">", "</", "/>", "&"),
    *("[a](b)", "![a](b c)", '[a](b "t")', "[a][b]", "[ ] ", "<b>", "</b>", "<br>", "<think>", "</think>", "<!--"),
    *("-->", "<a href='x'>", '<p class="', "&amp;", "&#39;", "&lt;", "&x", "<|im_end|>", "<https://a.b/c>", "<a@b.c>"),
    *("https://www.a.com/b?c=d", "http://", "www.", "https://u:p@x.y:80", "a@b.co", "h", "ht", "w", "/", ".", ",", "?"),
    *("\n", "\n", "\r\n", " ", " ", " ", "  ", "\t", "        "),
    *("a", "word", "2", "3", "x1", "I", "é", "好", "の", "कि", "שלום", "=", "==="),
    *(
        "😀",
        "👨\u200d👩\u200d👧",
        "👍🏽",
        "🇩🇪",
        "1\ufe0f\u20e3",
        "*\ufe0f\u20e3",
        "#\u20e3",
        "❤\ufe0f",
        "©",
        "©\ufe0f",
        "™",
    ),
    *("\u200d", "\ufe0f", "\u20e3", "\u2194", "\ud83d", "\ude00", "\udb40", "\udc67", "\x00", "\u202e"),
    *("```python\n", "\n```\n", "\n~~~\n", "js", "'", '"', ":", "{", "}", "-", "–", "%"),
]
texts = st.one_of(
    st.lists(st.sampled_from(ATOMS), max_size=30).map("".join),
    st.text(st.characters(codec=None), max_size=40),
    st.text("*_`~[]()<>!|#-&;:/\\ \nahtpw1😀\ufe0f\u200d\u20e3", max_size=40),
)
filter_sets = st.one_of(st.just(ALL), st.frozensets(st.sampled_from(list(TextFilter))))

# Text of models with mark-up that must not be spoken, and must not join words.
WRITTEN = [
    "Sure! Here's **what you need**:\n\n1. **Install** it: `pip install x`\n2. *Run* it\n\n> Note: __done__ 🎉\n",
    "### Überschrift\n* **Punkt:** Text\n    * tief\n\n| **A** | B |\n|:--|--:|\n| 1 | 2 |\n\n***\nEnde.",
    "**Unclosed bold and *unclosed italic\n\nNext paragraph ** with a stray pair.",
    "***\n**\n*\n**a\nb**\n****\n* * *\n**** x ****",
    "<think>\nLet me *think*…\n</think>\n\n**Answer:** see [docs](https://docs.x.org/a_b_c(d)?q=*#h).",
]


@settings(max_examples=300)
@given(text=texts, cuts=st.lists(st.integers(0, 10_000), max_size=8), filters=filter_sets)
def test_any_slicing_gives_the_same_speech_with_the_same_offsets(
    text: str, cuts: list[int], filters: frozenset[TextFilter]
) -> None:
    check(text, cuts, filters)


def test_any_slicing_of_long_token_streams_gives_the_same_speech() -> None:
    chance = random.Random(5)
    for _ in range(25):
        text = "".join(chance.choice(ATOMS) for _ in range(150))
        check(text, [chance.randrange(len(text) + 1) for _ in range(40)], ALL)


def test_mark_up_inside_the_text_of_a_link_ends_with_it() -> None:
    assert_spoken(
        [
            ("see [x ```](u)\nmore [https://a.com](u)d [😀](u)\u200db", "see x \nmore a.comd \u200db"),
        ]
    )


def test_no_asterisk_or_backtick_is_spoken() -> None:
    for written in WRITTEN:
        for size in (1, 4, 1000):
            spoken = clean(written, [written[at : at + size] for at in range(0, len(written), size)], ALL)[0]
            for mark in ("*", "__", "`"):
                assert mark not in spoken, (written, size)


@given(st.text("ab2 \n*_[]()<>!|#-", max_size=60))
def test_no_run_of_asterisks_survives_beside_any_text(text: str) -> None:
    assert "**" not in clean(text, [text], frozenset([TextFilter.MARKDOWN]))[0]


@given(st.text(st.sampled_from("abcdefgHhwWfé好 .,;:?'\"5-"), max_size=80))
def test_prose_is_unchanged_and_all_but_its_last_word_is_returned_at_once(text: str) -> None:
    assume("www." not in text.lower())  # an address, which is held back until its end
    text = "x" + text
    cleaner = TextCleaner(frozenset(TextFilter))
    passed = ""
    for at, char in enumerate(text):
        passed += cleaner.push(char)
        assert len(passed) >= len(text[: at + 1].rstrip("wWhHfF5")) - 1
    assert passed + cleaner.flush() == text
    assert [cleaner.source(at) for at in range(len(text) + 1)] == list(range(len(text) + 1))


def test_only_what_may_become_mark_up_is_held_back() -> None:
    for text, held in [
        ("a hww. b fttps://x", ""),
        ("Hello, world", ""),
        ("Hello!", "!"),
        ("a **", "*"),  # of a keycap?
        ("a *", "*"),
        ("room 5", "5"),
        ("see https://a.b", "https://a.b"),
        ("see https://a.b/", ""),
        ("see https://a.b/c.", "."),
        ("see [the", "[the"),
        ("x <b", "<b"),
        ("- ", "- "),
        ("Tom &am", "&am"),
        ("a | b", ""),
    ]:
        cleaner = TextCleaner(ALL)
        cleaner.push(text)
        assert cleaner.held_chars == len(held), text


def test_mark_up_that_is_never_closed_is_not_held_for_long() -> None:
    for opening in (
        "[",
        "[a](",
        "![",
        "<",
        "<a ",
        "<a b='",
        "`",
        "```",
        "https://",
        "https://a.b/",
        "&",
        "a\n|",
        "#",
        "<!-- ",
    ):
        for unit in ("x", "*", "[", "-", " ", "😀"):
            cleaner = TextCleaner(ALL)
            cleaner.push(opening)
            for _ in range(100):
                cleaner.push(unit * 30)
                assert cleaner.held_chars <= 2100, (opening, unit)


@pytest.mark.slow
def test_a_flood_of_one_mark_neither_grows_nor_breaks() -> None:
    for unit in (
        *("*", "[", "<", "`", "_", "~", "\\", "|", "#", "-", "!", "&", "😀", "\u200d", "\ufe0f", "\ud83d", "\u202e"),
        *("\x00", "](", "[a", "<a ", "- ", "> ", "| ", "5", "h", "https://", "<think>", "<!--", "``` ", "\n```", "\n"),
        *("![[", "<a b=c ", "שלום*", "\udb40"),
    ):
        cleaner = TextCleaner(ALL)
        text = unit * (60_000 // len(unit))
        spoken = ""
        for at in range(0, len(text), 1000):
            spoken += cleaner.push(text[at : at + 1000])
            assert cleaner.held_chars <= 2100, ascii(unit)
        spoken += cleaner.flush()
        assert len(spoken) <= len(text), ascii(unit)
        assert cleaner.source(len(spoken)) <= len(text), ascii(unit)


def test_a_flush_returns_all_and_the_utterance_continues() -> None:
    cleaner = TextCleaner(ALL)
    assert cleaner.push("Hi *") + cleaner.flush() == "Hi "
    assert cleaner.push("you* there [") + cleaner.flush() == "you there ["
    assert cleaner.push("x](y)\n```\na") + cleaner.flush() == "x](y)\n"
    assert cleaner.push("b\n```\nc") + cleaner.flush() == "\nc"
    assert cleaner.push("<think>d</th") + cleaner.flush() == ""
    assert cleaner.push("ink>e") + cleaner.flush() == " e"
    assert cleaner.push(" https://a.b/c") + cleaner.flush() == " a.b"
    assert cleaner.push("d 😀") + cleaner.flush() == "d "
    assert cleaner.push("\ufe0fe") + cleaner.flush() == "\ufe0fe"


def test_a_span_of_speech_is_found_in_what_was_received() -> None:
    cleaner = TextCleaner(ALL)
    text = "Hi **all** of &lt;you"
    spoken = cleaner.push(text) + cleaner.flush()
    assert spoken == "Hi all of <you"
    assert text[cleaner.source(3) : cleaner.source_end(6)] == "all"
    assert text[cleaner.source(10) : cleaner.source_end(11)] == "&lt;"
    kept = cleaner.offsets_of(3, 6)
    cleaner.forget(10)
    assert text[kept.source(0) : kept.source_end(3)] == "all"
    assert text[cleaner.source(10) : cleaner.source_end(14)] == "&lt;you"


def test_what_precedes_a_forgotten_offset_is_not_needed() -> None:
    cleaner = TextCleaner(ALL)
    chars = 0
    for _ in range(2000):
        chars += len(cleaner.push("**a** b "))
        cleaner.forget(chars)
        assert cleaner.source_end(chars) >= cleaner.source(chars - 1)
        assert cleaner.offsets_of(chars - 1, chars).runs == 1


def test_without_filters_the_text_stays_as_it_is() -> None:
    assert_spoken([("**a** 😀 <b>", "**a** 😀 <b>")], frozenset())
    cleaner = TextCleaner(frozenset())
    assert cleaner.push("**a** <b> [") == "**a** <b> ["
    assert cleaner.flush() == ""
    assert (cleaner.source(5), cleaner.source_end(11), cleaner.held_chars) == (5, 11, 0)
    part = cleaner.offsets_of(3, 7)
    assert (part.source(0), part.source(2), part.source_end(4), part.length) == (3, 5, 7, 4)
    cleaner.forget(7)
