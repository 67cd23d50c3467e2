"""What is spoken of a written text: no marks, nothing glued, nothing lost, and the same however it is sliced."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.session.text import TextCleaner, TextFilter

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
SPOKEN: list[tuple[frozenset[TextFilter], str, str]] = []
WRITTEN: list[str] = []


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
