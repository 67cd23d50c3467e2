"""Whatever a person or a language model writes is turned into words that can be pronounced."""

import re
import unicodedata
from collections.abc import Callable
from timeit import timeit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.engine.models.kokoro.normalise import normalise

# One row for each thing that people send to a voice assistant.  The rules' own tests hold their corner cases.
SPOKEN = [
    ("Hello, world!", "Hello, world!"),
    ("Don't worry, it's James' rock 'n' roll.", "Don't worry, it's James' rock 'n' roll."),
    ("That costs $3.50.", "That costs three dollars and fifty cents."),
    ("It was £20, or €1.5 million.", "It was twenty pounds, or one point five million euros."),
    ("a $5k bonus", "a five thousand dollars bonus"),
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
    ("a 5 km run", "a five kilometers run"),
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
    ("24/7 support", "twenty four seven support"),
    ("π ≈ 3.14", "pie about three point one four"),
    ("", ""),
    ("😀", ""),
    ("你好", ""),
]

# What would make a careless pattern try every length from every start.
HOSTILE = [
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
]


@pytest.mark.parametrize(("raw", "words"), SPOKEN, ids=[raw or "nothing" for raw, _ in SPOKEN])
def test_what_is_written_is_said_in_words(raw: str, words: str) -> None:
    assert normalise(raw) == words


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("aA1 .,:/-_@#$%'\"()+=~½é😀\n°kmv—")), max_size=200))
def test_any_text_becomes_words_without_digits(text: str) -> None:
    words = normalise(text)
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
def test_plain_words_stay_as_they_are(words: list[str]) -> None:
    assert normalise(" ".join(words)) == " ".join(words)


@pytest.mark.parametrize("unit", HOSTILE)
def test_time_grows_with_the_length_alone(unit: str) -> None:
    def seconds(length: int) -> float:
        text = (unit * length)[:length]
        call: Callable[[], str] = lambda: normalise(text)  # noqa: E731
        return min(timeit(call, number=1) for _ in range(3))

    # Eight times the text: eight times the time when linear, 64 when quadratic.
    assert seconds(16_000) < 24 * seconds(2_000) + 0.02
