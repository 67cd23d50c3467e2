"""What is spoken of a written text: no marks, nothing glued, nothing lost, and the same however it is sliced."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.text.cleaner import TextCleaner, TextFilter

ALL = frozenset(TextFilter)
MARKDOWN, EMOJI, CODE = TextFilter.MARKDOWN, TextFilter.EMOJI, TextFilter.CODE
URLS, TAGS = TextFilter.URLS, TextFilter.TAGS
ATOMS = [
    *("*", "**", "***", "_", "__", "~", "~~", "`", "``", "```", "~~~", "#", "##", ">", "- ", "+ ", "• ", "1. ", "---"),
    *("[", "]", "(", ")", "](", "![", "[^", "][", "|", "| ", " |", "|-", ":-:", "\\", "!", "<", ">", "</", "/>", "&"),
    *("[a](b)", "![a](b c)", '[a](b "t")', "[a][b]", "[ ] ", "<b>", "</b>", "<br>", "<think>", "</think>", "<!--"),
    *("-->", "<a href='x'>", '<p class="', "&amp;", "&#39;", "&lt;", "&x", "<|im_end|>", "<https://a.b/c>", "<a@b.c>"),
    *("https://www.a.com/b?c=d", "http://", "www.", "https://u:p@x.y:80", "a@b.co", "h", "ht", "w", "/", ".", ",", "?"),
    *(
        "\n",
        "\n",
        "\r\n",
        " ",
        " ",
        " ",
        "  ",
        "\t",
        "        ",
        "a",
        "word",
        "2",
        "3",
        "x1",
        "I",
        "é",
        "好",
        "の",
        "कि",
    ),
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
    *(
        "\u200d",
        "\ufe0f",
        "\u20e3",
        "\u2194",
        "\ud83d",
        "\ude00",
        "\udb40",
        "\udc67",
        "\x00",
        "\u202e",
        "שלום",
        "=",
        "===",
    ),
    *("```python\n", "\n```\n", "\n~~~\n", "js", "'", '"', ":", "{", "}", "-", "–", "%"),
]
texts = st.one_of(
    st.lists(st.sampled_from(ATOMS), max_size=30).map("".join),
    st.text(st.characters(codec=None), max_size=40),
    st.text("*_`~[]()<>!|#-&;:/\\ \nahtpw1😀\ufe0f\u200d\u20e3", max_size=40),
)
filter_sets = st.one_of(st.just(ALL), st.frozensets(st.sampled_from(list(TextFilter))))

# Filters, what models write, what is spoken of it.
SPOKEN: list[tuple[frozenset[TextFilter], str, str]] = [
    (ALL, "**bold** and *it*, __b__ _i_ ~~s~~ ***both***", "bold and it, b i s both"),
    (ALL, "## Two ##\n# One\n#1 C# #tag", "Two\nOne\n#1 C# #tag"),
    (ALL, "> quote\n>> deep\n>5 is more", "quote\ndeep\n>5 is more"),
    (ALL, "- a\n* b\n+ c\n1. d\n2) e\n- [ ] f\n- [x] g\n-5 h", "a\nb\nc\n1. d\n2) e\nf\ng\n-5 h"),
    (ALL, "one\n---\n* * *\n___\ntwo\n===\n", "one\n\n\n\ntwo\n\n"),
    (ALL, "[text](https://a.b/c) ![alt](u.png) [![x](b)](c)", "text alt x"),
    (ALL, 'see [**b** `c`](<u v> "t") and [w](a_(b)), [x][r] y[^1].', "see b c and w, x y."),
    (ALL, "[1] and [open (a) [a](b c) x[0](", "[1] and [open (a) [a](b c) x[0]("),
    (ALL, "| a | b |\n|---|:-:|\n| 1 | **2** |\n| x |  |\n|c|d|\nend", "a, b\n\n1, 2\nx\nc, d\nend"),
    (ALL, "5 * 3 * 2, snake_case_name, a*b, 2*(3+4)", "5 * 3 * 2, snake_case_name, a*b, 2*(3+4)"),
    (ALL, "2 < 3 and 4 > 1, <3, a < b, AT&T, ~5", "2 < 3 and 4 > 1, <3, a < b, AT&T, ~5"),
    (ALL, "2**3, x**2, un**believ**able, ** bold ** x", "2 3, x 2, unbelievable, bold x"),
    (ALL, "这是**重点**内容和*强调*的。", "这是重点内容和强调的。"),
    (ALL, "a \\*star\\* \\# C:\\new \\\\", "a *star* # C:\\new \\"),
    (ALL, "use `code`, `a*b_c` and ``x`y`` or `f(**kw)`", "use code, a*b_c and xy or f(kw)"),
    (ALL, "Look:\n```python\nprint('*')\n```\nDone.", "Look:\n\nDone."),
    (ALL, "Try ```js\nfoo()\n```\nor ```x``` so\n~~~\ny\n~~~\nz", "Try \nor x so\n\nz"),
    (ALL, "````md\n```\nx\n```\n````\nz ```sh\nls", "\nz "),
    (frozenset([MARKDOWN]), "```py\na_b **c**\n```\nd", "a_b **c**\n\nd"),
    (frozenset([CODE]), "**a** `b`\n```\nc\n```\nd", "**a** b\n\nd"),
    (ALL, "Go to https://www.example.com/a/b?x=1. Now", "Go to example.com. Now"),
    (ALL, "(http://u:p@foo.org:80/x), www.bar.de! ftp://x.y", "(foo.org), bar.de! x.y"),
    (ALL, "joe@www.x.com www.com http:// https://a.com了解", "joe@www.x.com www.com http:// a.com了解"),
    (ALL, "<https://a.com/x>more **https://b.de/_x_**", "a.com more b.de"),
    (ALL, "a😀b Great! 😀 Next 👨\u200d👩\u200d👧 x 🇩🇪 y 👍🏽.", "a b Great! Next x y ."),
    (ALL, "1\ufe0f\u20e3 one #\u20e3 2 © ™ ©\ufe0f 5 \ud83d\ude00z", "one 2 © ™ 5 z"),
    (ALL, "می\u200cخواهم क्\u200dष", "می\u200cخواهم क्\u200dष"),
    (ALL, "<think>hm **x**\n</think>Hi <b>bo</b>ld H<sub>2</sub>O", "Hi bold H2O"),
    (ALL, "foo<br>bar<p>baz</p>qux<i class='a>b'>x</i>", "foo\nbar\nbaz\nquxx"),
    (ALL, "Tom &amp; Jo &lt;x&gt; &#39;q&#x27; &bogus; &", "Tom & Jo <x> 'q' &bogus; &"),
    (ALL, 'a<!-- c -->b<|im_end|>c <break time="1s"/>d', "a b c d"),
    (ALL, "x<script>a<b</script>y<tool_call>{}</tool_call>z <Thinking>no", "x y z "),
    (ALL, "see [x ```](u)\nmore [https://a.com](u)d [😀](u)\u200db", "see x \nmore a.comd \u200db"),
    (ALL, "🏴\udb40\udc67\udb40\udc7fa 🙂\u200d\u2194b <think/>c", "a b c"),
    (frozenset([EMOJI]), "**a** 😀b <br> `c` 7", "**a** b <br> `c` 7"),
    (frozenset([TAGS]), "**a**<br>[b](c)", "**a**\n[b](c)"),
    (frozenset([URLS]), "[b](https://www.a.com/c_d) **e**", "[b](a.com) **e**"),
    (frozenset(), "**a** 😀 <b>", "**a** 😀 <b>"),
]
# What must not be heard, and must not glue words, in what models have written.
WRITTEN = [
    "Sure! Here's **what you need**:\n\n1. **Install** it: `pip install x`\n2. *Run* it\n\n> Note: __done__ 🎉\n",
    "### Überschrift\n* **Punkt:** Text\n    * tief\n\n| **A** | B |\n|:--|--:|\n| 1 | 2 |\n\n***\nEnde.",
    "**Unclosed bold and *unclosed italic\n\nNext paragraph ** with a stray pair.",
    "***\n**\n*\n**a\nb**\n****\n* * *\n**** x ****",
    "<think>\nLet me *think*…\n</think>\n\n**Answer:** see [docs](https://docs.x.org/a_b_c(d)?q=*#h).",
]


def clean(text: str, slices: list[str], filters: frozenset[TextFilter]) -> tuple[str, list[int], list[int]]:
    """The clean text, and for each of its characters where that came from, and where that ended."""
    assert "".join(slices) == text
    cleaner = TextCleaner(filters)
    spoken = "".join([*(cleaner.push(piece) for piece in slices), cleaner.flush()])
    return (
        spoken,
        [cleaner.source(at) for at in range(len(spoken) + 1)],
        [cleaner.source_end(at) for at in range(len(spoken) + 1)],
    )


def sliced(text: str, cuts: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in zip(edges, [*edges[1:], len(text)], strict=True)]


def check(text: str, cuts: list[int], filters: frozenset[TextFilter]) -> None:
    whole = clean(text, [text], filters)
    assert clean(text, list(text), filters) == whole
    assert clean(text, sliced(text, cuts), filters) == whole
    spoken, sources, ends = whole
    assert sources == sorted(sources)
    assert ends == sorted(ends)
    assert sources[-1] <= len(text)
    for at, char in enumerate(spoken):
        start, end = sources[at], ends[at + 1]
        assert 0 <= start <= end <= len(text)
        # A character that was received, an entity's, or one put where a mark has kept two words apart.
        assert text[start:end] == char or "&" in text[start:end] or char in " \n,"


@settings(max_examples=1500, deadline=None)
@given(text=texts, cuts=st.lists(st.integers(0, 10_000), max_size=8), filters=filter_sets)
def test_any_slicing_gives_the_same_speech_from_the_same_places(
    text: str, cuts: list[int], filters: frozenset[TextFilter]
) -> None:
    check(text, cuts, filters)


def test_any_slicing_of_long_token_streams_gives_the_same_speech() -> None:
    chance = random.Random(5)
    for _ in range(60):
        text = "".join(chance.choice(ATOMS) for _ in range(150))
        check(text, [chance.randrange(len(text) + 1) for _ in range(40)], ALL)


@pytest.mark.parametrize(("filters", "written", "spoken"), SPOKEN)
def test_marks_are_not_spoken_and_words_stay_apart(filters: frozenset[TextFilter], written: str, spoken: str) -> None:
    assert clean(written, [written], filters)[0] == spoken
    check(written, [3, 10, 17], filters)


@pytest.mark.parametrize("written", WRITTEN)
def test_asterisk_asterisk_is_never_spoken(written: str) -> None:
    for size in (1, 4, 1000):
        spoken = clean(written, [written[at : at + size] for at in range(0, len(written), size)], ALL)[0]
        assert "*" not in spoken
        assert "__" not in spoken
        assert "`" not in spoken


@given(st.text("ab2 \n*_[]()<>!|#-", max_size=60))
def test_no_run_of_asterisks_survives_whatever_stands_around_it(text: str) -> None:
    assert "**" not in clean(text, [text], frozenset([MARKDOWN]))[0]


@given(st.text(st.sampled_from("abcdefgHhwWfé好 .,;:?'\"5-"), max_size=80))
def test_prose_comes_out_as_it_went_in_and_all_but_its_last_word_at_once(text: str) -> None:
    text = "x" + text
    cleaner = TextCleaner(frozenset(TextFilter))
    passed = ""
    for at, char in enumerate(text):
        passed += cleaner.push(char)
        assert len(passed) >= len(text[: at + 1].rstrip("wWhHfF5")) - 1
    assert passed + cleaner.flush() == text
    assert [cleaner.source(at) for at in range(len(text) + 1)] == list(range(len(text) + 1))


@pytest.mark.parametrize(
    ("text", "held"),
    [
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
    ],
)
def test_only_what_may_yet_be_a_mark_is_held_back(text: str, held: str) -> None:
    cleaner = TextCleaner(ALL)
    cleaner.push(text)
    assert cleaner.held_chars == len(held)


@pytest.mark.parametrize(
    "opening",
    ["[", "[a](", "![", "<", "<a ", "<a b='", "`", "```", "https://", "https://a.b/", "&", "a\n|", "#", "<!-- "],
)
@pytest.mark.parametrize("unit", ["x", "*", "[", "-", " ", "😀"])
def test_what_is_never_closed_is_not_held_for_long(opening: str, unit: str) -> None:
    cleaner = TextCleaner(ALL)
    cleaner.push(opening)
    for _ in range(300):
        cleaner.push(unit * 10)
        assert cleaner.held_chars <= 2100


@pytest.mark.parametrize(
    "unit",
    [
        *("*", "[", "<", "`", "_", "~", "\\", "|", "#", "-", "!", "&", "😀", "\u200d", "\ufe0f", "\ud83d", "\u202e"),
        *("\x00", "](", "[a", "<a ", "- ", "> ", "| ", "5", "h", "https://", "<think>", "<!--", "``` ", "\n```", "\n"),
        *("![[", "<a b=c ", "שלום*", "\udb40"),
    ],
)
def test_a_flood_of_one_mark_neither_grows_nor_breaks(unit: str) -> None:
    cleaner = TextCleaner(ALL)
    text = unit * (60_000 // len(unit))
    spoken = ""
    for at in range(0, len(text), 1000):
        spoken += cleaner.push(text[at : at + 1000])
        assert cleaner.held_chars <= 2100
    spoken += cleaner.flush()
    assert len(spoken) <= len(text)
    assert cleaner.source(len(spoken)) <= len(text)


def test_a_flush_gives_all_and_the_utterance_goes_on() -> None:
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
    cleaner.forget(10)
    assert text[cleaner.source(10) : cleaner.source_end(14)] == "&lt;you"


def test_what_is_forgotten_takes_no_memory() -> None:
    cleaner = TextCleaner(ALL)
    chars = 0
    for _ in range(2000):
        chars += len(cleaner.push("**a** b "))
        cleaner.forget(chars)
        assert cleaner.source_end(chars) >= cleaner.source(chars - 1)
        assert cleaner.mapped_stretches <= 4


def test_without_filters_nothing_is_done() -> None:
    cleaner = TextCleaner(frozenset())
    assert cleaner.push("**a** <b> [") == "**a** <b> ["
    assert cleaner.flush() == ""
    assert (cleaner.source(5), cleaner.source_end(11), cleaner.held_chars) == (5, 11, 0)


def test_a_run_of_ticks_without_end_is_one_however_it_is_cut() -> None:
    """Found by the fuzzer: cut behind the twentieth, it opened code of another number of ticks."""
    text = "`" * 28 + "d" + "`" * 40 + "\\" * 51
    filters = frozenset({TextFilter.MARKDOWN, TextFilter.CODE})
    whole = clean(text, [text], filters)
    for cut in range(len(text)):
        assert clean(text, [text[:cut], text[cut:]], filters) == whole
