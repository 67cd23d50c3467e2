"""Anything that a person or a language model writes becomes words that can be pronounced."""

import re
import unicodedata
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.text.english.normalizer import RULES, normalize
from realtime_tts.text.offsets import AlignedText

WRITTEN = st.text(
    alphabet=st.one_of(st.characters(), st.sampled_from("aA1 .,:/-_@#$%'\"()+=~½é😀\n°kmv—")), max_size=200
)
# One row for each thing that people send to a voice assistant.  The tests of the rules have their corner cases.
SPOKEN = [
    ("Hello, world!", "Hello, world!"),
    ("Don't worry, it's James' rock 'n' roll.", "Don't worry, it's James' rock 'n' roll."),
    ("That costs $3.50.", "That costs three dollars and fifty cents."),
    ("It was £20, or €1.5 million.", "It was twenty pounds, or one point five million euros."),
    ("a $5k bonus", "a five thousand dollar bonus"),
    ("On 2026-11-29 we met.", "On November twenty ninth, twenty twenty six we met."),
    ("Due 11/29/2026", "Due November twenty ninth, twenty twenty six"),
    ("See you Nov 29th.", "See you November twenty ninth."),
    ("born 3 May 1999", "born May third nineteen ninety nine"),
    ("Mon, Mar 3", "Monday, March third"),
    ("at 3:30 p.m. today", "at three thirty p.m. today"),
    ("The train leaves at 14:05.", "The train leaves at fourteen oh five."),
    ("Wake me at 7am", "Wake me at seven a.m."),
    ("open 9am-5pm", "open nine a.m. to five p.m."),
    ("It's 9:00.", "It's nine o'clock."),
    ("a 5 km run", "a five kilometer run"),
    ("10 kg of flour", "ten kilograms of flour"),
    ("3 GB of RAM", "three gigabytes of RAM"),
    ("It's 72°F outside.", "It's seventy two degrees Fahrenheit outside."),
    ("-3.5°C", "minus three point five degrees Celsius"),
    ("60 mph winds", "sixty miles per hour winds"),
    ("in 12 ms", "in twelve milliseconds"),
    ("100 MB/s", "one hundred megabytes per second"),
    ("50% off", "fifty percent off"),
    ("What's 15% of $80?", "What's fifteen percent of eighty dollars?"),
    ("Add 1/2 cup", "Add one half cup"),
    ("2 1/2 cups", "two and a half cups"),
    ("1½ cups", "one and a half cups"),
    ("3-5 days", "three to five days"),
    ("10–20 people", "ten to twenty people"),
    ("Call 555-123-4567.", "Call five five five, one two three, four five six seven."),
    ("1-800-555-1234", "one, eight hundred, five five five, one two three four"),
    ("the 1st, 2nd and 21st", "the first, second and twenty first"),
    ("pi is 3.14159", "pi is three point one four one five nine"),
    ("1,234,567 people", "one million two hundred thirty four thousand five hundred sixty seven people"),
    ("It is -5 today", "It is minus five today"),
    ("agent 007", "agent zero zero seven"),
    ("In 1984 or 2005", "In nineteen eighty four or two thousand five"),
    ("the 1990s and the '80s", "the nineteen nineties and the eighties"),
    ("Henry VIII and World War II", "Henry the eighth and World War two"),
    ("Chapter IV", "Chapter four"),
    ("Dr. Smith on Oak Dr.", "Doctor Smith on Oak Drive"),
    ("St. John St.", "Saint John Street"),
    ("cats vs. dogs, e.g. mine", "cats versus dogs, for example mine"),
    ("i.e. that, approx. 5", "that is that, approximately five"),
    ("No. 5", "number five"),
    ("NASA's HTTP API", "NASA's HTTP API"),
    ("The US and the UK.", "The U.S. and the UK."),
    ("v1.2.3 is out", "version one point two point three is out"),
    ("version 2.0", "version two point zero"),
    ("192.168.0.1", "one nine two dot one six eight dot zero dot one"),
    ("See https://example.com/docs.", "See example dot com slash docs."),
    ("Or www.example.com!", "Or example dot com!"),
    ("github.com/user", "GitHub dot com slash user"),
    ("Write to bob.smith@example.com, please.", "Write to bob dot smith at example dot com, please."),
    ("#winning", "hashtag winning"),
    ("thanks @bob", "thanks at bob"),
    ("salt & pepper", "salt and pepper"),
    ("2 + 2 = 4", "two plus two equals four"),
    ("5 - 3 = 2", "five minus three equals two"),
    ("x = 5", "x equals five"),
    ("E = mc²", "E equals mc squared"),
    ("~50 people", "about fifty people"),
    ("a score of 3:1, 8/10", "a score of three to one, eight out of ten"),
    ("Nice 😀👩‍👩‍👧🇺🇸 day", "Nice day"),
    ("Run main.py now", "Run main dot PY now"),
    ("the snake_case name", "the snake case name"),
    ("C++ and C#", "C plus plus and C sharp"),
    ("Q&A about R&D", "Q and A about R and D"),
    ("COVID-19 and GPT-4", "COVID nineteen and GPT four"),
    ("5'10\" tall", "five foot ten tall"),
    ("10k users", "ten K users"),
    ("3.2bn users", "three point two billion users"),
    ("order #4521", "order four five two one"),
    ("naïve café", "naive cafe"),
    ("wait... what", "wait… what"),
    ("Set a timer for 1h 5m.", "Set a timer for one hour five minutes."),
    ("plan A or A4", "plan A or eigh four"),
    ("Use ./run.sh now.", "Use dot slash run dot SH now."),
    (">50% of users, <10", "more than fifty percent of users, less than ten"),
    (">= 5", "at least five"),
    ("3 > 2", "three is greater than two"),
    (
        "3 × 10^8, 10^-3, 1.5e-3",
        "three times ten to the eighth, ten to the minus three, one point five times ten to the minus three",
    ),
    ("x^2 + y^3", "x squared plus y cubed"),
    ("5! = 120", "five factorial equals one hundred twenty"),
    ("He said -- no", "He said — no"),
    ("A+ or a B- grade", "A plus or a B minus grade"),
    ("Super Bowl LVIII, Rocky IV", "Super Bowl fifty eight, Rocky four"),
    ("a 30s timer for 20s", "a thirty second timer for twenty seconds"),
    ("Steps: 1. Do this.", "Steps: one. Do this."),
    ("24/7 support", "twenty four seven support"),
    ("π ≈ 3.14", "pie about three point one four"),
    ("", ""),
    ("😀", ""),
    ("你好", ""),
]

# Each word that is spoken, and the written word that it stands for.
ALIGNED = [
    ("It is $5.20 now", "It=It is=is five=$5.20 dollars=$5.20 and=$5.20 twenty=$5.20 cents=$5.20 now=now"),
    ("on Nov 29th.", "on=on November=Nov twenty=29th. ninth.=29th."),
    ("Henry VIII ran", "Henry=Henry the=VIII eighth=VIII ran=ran"),
    ("😀 e.g. this", "for=e.g. example=e.g. this=this"),
    ("3 GB of it", "three=3 gigabytes=GB of=of it=it"),
    ("see example.com.", "see=see example=example.com. dot=example.com. com.=example.com."),
    ("2 + 2", "two=2 plus=+ two=2"),
    ("wait — no", "wait=wait —=— no=no"),
]

HOSTILE = (
    *(
        "a",
        "1",
        "1,",
        "a.",
        "a@",
        "/",
        "1-",
        "$1",
        "_",
        "a_",
        "http://",
        "a'",
        "(",
        "1:",
        "Jan 1 ",
        "A ",
        " ",
        "½",
        "1 1/",
    ),
)
"""With each of these, repeated, a careless pattern tries every length from every start."""


def spoken(text: str) -> str:
    return normalize(AlignedText.of(text)).text


def word_pairs(text: str) -> list[tuple[str, str]]:
    """Each word that is spoken, and the written word that it stands for."""
    words = normalize(AlignedText.of(text))
    written = [match.span() for match in re.finditer(r"\S+", text)]
    pairs = []
    for match in re.finditer(r"\S+", words.text):
        source = words.source(match.start())
        start, end = next(span for span in written if span[1] > source)
        pairs.append((match[0], text[start:end]))
    return pairs


def test_written_text_becomes_words() -> None:
    for raw, words in SPOKEN:
        assert spoken(raw) == words, raw


@given(WRITTEN)
def test_any_text_becomes_words_without_digits(text: str) -> None:
    words = spoken(text)
    assert not any(unicodedata.category(character) == "Nd" for character in words)
    assert words == words.strip()
    assert max((len(word) for word in words.split()), default=0) <= 41


@given(
    st.lists(
        st.from_regex(re.compile(r"[a-z]{1,12}", re.ASCII), fullmatch=True).filter(
            lambda w: w not in {"vs", "btw", "etc", "yaml", "sudo", "nginx", "kubectl"}
        ),
        max_size=30,
    )
)
@settings(max_examples=40)
def test_plain_words_stay_as_they_are(words: list[str]) -> None:
    assert spoken(" ".join(words)) == " ".join(words)


@given(WRITTEN)
def test_offsets_stay_in_the_text_and_in_order(text: str) -> None:
    words = normalize(AlignedText.of(text))
    ends = [words.source_end(at + 1) for at in range(len(words.text))]
    assert words.sources == sorted(words.sources)
    assert ends == sorted(ends)
    assert all(0 <= start < end <= len(text) for start, end in zip(words.sources, ends, strict=True))


@given(
    st.lists(st.sampled_from(["plain", "words", "don't", "café", "“quoted”"]), max_size=12),
    st.text(" \n\t", max_size=3),
)
@settings(max_examples=40)
def test_a_word_that_no_rule_changes_stands_for_itself(words: list[str], gap: str) -> None:
    text = f"{gap} ".join(words)
    assert [written for _, written in word_pairs(text)] == words


def test_words_stand_for_what_they_replace() -> None:
    for text, pairs in ALIGNED:
        assert word_pairs(text) == [tuple(pair.split("=")) for pair in pairs.split(" ")], text


def unbounded_repeats(pattern: str) -> Iterator[str]:
    """Repetitions without an upper bound, outside of character classes."""
    bare = re.sub(r"\\.", "x", pattern)
    bare = re.sub(r"\[\]?[^\]]*\]", "x", bare)
    yield from re.findall(r"[*+]\+?|\{\d+,\}", bare)


def test_no_rule_repeats_without_bound() -> None:
    assert list(unbounded_repeats(r"a*[b+]c\+d{2,}")) == ["*", "{2,}"]
    for rule in RULES:
        assert not list(unbounded_repeats(rule.pattern.pattern)), rule.pattern.pattern


@pytest.mark.slow
def test_long_repetitions_are_read_in_linear_time() -> None:
    """A pattern of quadratic time makes this test many times slower."""
    for unit in HOSTILE:
        spoken((unit * 16_000)[:16_000])
