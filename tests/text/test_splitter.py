"""The same sentences from any slicing, each as soon as it is certain, none too long, and nothing lost."""

import random
import re
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from realtime_tts.text.pauses import MAX_PAUSE_S
from realtime_tts.text.splitter import Granularity, Sentence, SentenceSplitter
from realtime_tts.text.unicode import is_speakable, without_surrogates

# Language, text, its sentences.
TABLE: list[tuple[str, str, list[str]]] = [
    ("en", "It is 98.6 today. Ok.", ["It is 98.6 today.", "Ok."]),
    ("en", "Pi is 3,141.59 or so. Yes.", ["Pi is 3,141.59 or so.", "Yes."]),
    ("en", "It costs 22,1 euros. Yes.", ["It costs 22,1 euros.", "Yes."]),
    ("en", "We go at 3 p.m. today. Bye.", ["We go at 3 p.m. today.", "Bye."]),
    ("en", "We go at 3 p.m. Then we eat.", ["We go at 3 p.m.", "Then we eat."]),
    ("en", "Dr. Smith met Mr. and Mrs. Doe. Ok.", ["Dr. Smith met Mr. and Mrs. Doe.", "Ok."]),
    ("en", "Take e.g. this one, i.e. mine. Ok.", ["Take e.g. this one, i.e. mine.", "Ok."]),
    ("en", "The U.S. economy is big. Ok.", ["The U.S. economy is big.", "Ok."]),
    ("en", "Apple Inc. said no. Bob left.", ["Apple Inc. said no.", "Bob left."]),
    ("en", "It is us vs. them. Ok.", ["It is us vs. them.", "Ok."]),
    ("en", "St. Louis is old. Ok.", ["St. Louis is old.", "Ok."]),
    ("en", "By J. R. R. Tolkien. Ok.", ["By J. R. R. Tolkien.", "Ok."]),
    ("en", "J. R. R. Tolkien wrote it. Ok.", ["J. R. R. Tolkien wrote it.", "Ok."]),
    ("de", "Er kam am 3. Mai. Dann ging er.", ["Er kam am 3. Mai.", "Dann ging er."]),
    ("de", "Der 2. Weltkrieg begann. Ja.", ["Der 2. Weltkrieg begann.", "Ja."]),
    ("en", "See https://a.b/c?d=e.f! ok", ["See https://a.b/c?d=e.f!", "ok"]),
    ("en", "See https://a.b/c?Name=E.F for it. Ok.", ["See https://a.b/c?Name=E.F for it.", "Ok."]),
    ("en", "Write to Al.Bo@c.De.org now. Ok.", ["Write to Al.Bo@c.De.org now.", "Ok."]),
    ("en", "Use v1.2.3 of main.py or Node.JS now. Ok.", ["Use v1.2.3 of main.py or Node.JS now.", "Ok."]),
    ("en", "Well... maybe. Ok.", ["Well... maybe.", "Ok."]),
    ("en", "I said no. Then we left.", ["I said no.", "Then we left."]),
    ("en", "Cats, dogs, etc. Next we go.", ["Cats, dogs, etc.", "Next we go."]),
    ("en", "It was me. Bob left.", ["It was me.", "Bob left."]),
    ("en", "He is No. 5 of ten. Ok.", ["He is No. 5 of ten.", "Ok."]),
    ("en", "你好。他说！真的？好", ["你好。", "他说！", "真的？", "好"]),
    ("zh", "「你好。」他说『走！』“好。”（完。）再见", ["「你好。」", "他说『走！』", "“好。”", "（完。）", "再见"]),
    ("zh", '他说："好。"我走了。"再见。"', ['他说："好。"', "我走了。", '"再见。"']),
    ("ja", "本当？！はい。。。３．１４です。", ["本当？！", "はい。。。", "３．１４です。"]),
    ("en", "Title\nBody. More\r\n\r\nEnd", ["Title", "Body.", "More", "End"]),
    ("en", "List:\n- one\n* two\n1. Three\n2. Four. Five", ["List:", "- one", "* two", "1. Three", "2. Four.", "Five"]),
    ("en", " \n\t ", []),
    ("en", "... !!", ["...", "!!"]),
    ("en", "a\x00b. C d", ["a\x00b.", "C d"]),
    ("en", "said Dr. 3. No. 3. 3. it", ["said Dr. 3.", "No. 3.", "3. it"]),
    # Titles, which the normaliser reads as such.
    ("en", "We met Ms. Smith. Ok.", ["We met Ms. Smith.", "Ok."]),
    ("en", "He drove to Ft. Worth. Ok.", ["He drove to Ft. Worth.", "Ok."]),
    ("en", "I had two ATMs. Then none.", ["I had two ATMs.", "Then none."]),
    # Marks that stay, and neighbours that are not affected.
    ("en", "What?! No!! Ok… Then.", ["What?!", "No!!", "Ok… Then."]),
    ("en", 'He said "Go." Then (quietly.) he left.', ['He said "Go."', "Then (quietly.) he left."]),
    ("en", "Great! 🎉 Next one. Ok.", ["Great!", "🎉 Next one.", "Ok."]),
    ("en", "Great!🎉 Next one. Ok.", ["Great!", "🎉 Next one.", "Ok."]),
    ("en", "It's five o'clock. 'Tis late. Ok.", ["It's five o'clock.", "'Tis late.", "Ok."]),
    # Other languages, by sentencex.
    ("fr", "M. Dupont est là. Non ? « Oui. » Bien.", ["M. Dupont est là.", "Non ?", "« Oui. »", "Bien."]),
    ("ar", "هل أنت هنا؟ نعم. حسنا", ["هل أنت هنا؟", "نعم.", "حسنا"]),
    ("ur", "یہ ہے۔ وہ ہے۔", ["یہ ہے۔", "وہ ہے۔"]),
    ("he", "שלום עולם. מה שלומך? טוב", ["שלום עולם.", "מה שלומך?", "טוב"]),
    ("hi", "यह है। वह है।", ["यह है।", "वह है।"]),
    ("hy", "Բարև։ Ես եմ։", ["Բարև։", "Ես եմ։"]),
    ("el", "Τι είναι; Ναι.", ["Τι είναι;", "Ναι."]),
    # Names of languages.
    ("de-AT", "Er kam am 3. Mai. Ja.", ["Er kam am 3. Mai.", "Ja."]),
    ("EN_us", "Dr. Smith left. Ok.", ["Dr. Smith left.", "Ok."]),
    ("Auto", "Dr. Smith left. 你好。」Ok.", ["Dr. Smith left.", "你好。」", "Ok."]),
    ("xx", "Dr. Smith left. Ok.", ["Dr. Smith left.", "Ok."]),
    ("no", "Dette er bra. Ja.", ["Dette er bra.", "Ja."]),
    ("\ud800", "Dr. Smith left. Ok.", ["Dr. Smith left.", "Ok."]),
]
ATOMS = [
    *(
        "Dr.",
        "J.",
        "A .",
        "No.",
        "no.",
        "etc.",
        "p.m.",
        "U.S.",
        "I",
        "Then",
        "Bob",
        "he",
        "3.",
        "1.",
        "98.6",
        "[1]",
        "Ms.",
    ),
    *("a@b.co", "https://a.b/C?D=e!", "...", ". . .", "?!", "!", ".", "…", "- ", "* ", "a)", "»", "«", "“", "”", '"'),
    *(
        "'",
        "(",
        ")",
        "。",
        "」",
        "「",
        "』",
        "！",
        "？",
        "．",
        "３",
        "，",
        ",",
        ";",
        ":",
        "—",
        "؟",
        "۔",
        "।",
        "։",
        "好",
    ),
    *(" ", " ", " ", " ", "  ", "\n", "\r\n", "\t", "\u2028", "\u00a0", "\u3000", "\x1c", "\x85", "\x00", "\x7f"),
    *("é", "e\u0301", "\u0301", "\u200d", "\ufe0f", "\u200b", "\ufeff", "👨\u200d👩\u200d👧", "👍🏽", "🇩🇪", "🎉"),
    *("\ud83d", "\ude00", "\ud83d\ude00", "\ufffd", "שלום", "مرحبا", "x" * 30, "\u202e", "𝐀", "ß"),
]
LANGUAGES = ["en", "de", "fr", "zh", "ja", "ar", "hi", "el", "hy", "ru", "my", "am", "kk", "th", "Auto"]
texts = st.one_of(
    st.lists(st.sampled_from(ATOMS), max_size=40).map("".join),
    st.text(st.characters(codec=None), max_size=60),
)


def split(
    text: str, slices: list[str], *, language: str, max_chars: int, granularity: Granularity = "sentence"
) -> list[Sentence]:
    assert "".join(slices) == text
    splitter = SentenceSplitter(language=language, max_chars=max_chars, granularity=granularity)
    sentences = []
    for piece in slices:
        sentences += splitter.push(piece)
        assert splitter.pending_chars <= max_chars
    sentences += splitter.finish()
    assert splitter.pending_chars == 0
    return sentences


def sliced(text: str, cuts: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in zip(edges, [*edges[1:], len(text)], strict=True)]


def check(text: str, cuts: list[int], language: str, max_chars: int, granularity: Granularity = "sentence") -> None:
    whole = split(text, [text], language=language, max_chars=max_chars, granularity=granularity)
    assert split(text, list(text), language=language, max_chars=max_chars, granularity=granularity) == whole
    assert split(text, sliced(text, cuts), language=language, max_chars=max_chars, granularity=granularity) == whole
    assert [sentence.index for sentence in whole] == list(range(len(whole)))
    previous_end = 0
    for sentence in whole:
        assert previous_end <= sentence.start < sentence.end <= sentence.start + max_chars
        assert not text[previous_end : sentence.start].strip()  # only white space is dropped
        assert sentence.text == without_surrogates(text[sentence.start : sentence.end])
        assert sentence.text.strip() == sentence.text
        assert granularity == "none" or not set(sentence.text) & {"\n", "\r", "\u2028"}
        previous_end = sentence.end
    assert not text[previous_end:].strip()


@settings(max_examples=200)
@given(
    text=texts,
    cuts=st.lists(st.integers(0, 10_000), max_size=12),
    language=st.sampled_from(LANGUAGES),
    max_chars=st.sampled_from([2, 3, 7, 20, 60, 400]),
    granularity=st.sampled_from(["sentence", "sentence", "clause", "none"]),
)
@example(
    text="A\u2028. B\u00a0.", cuts=[], language="en", max_chars=400, granularity="sentence"
)  # sentencex 1.0.32 panics on these
def test_any_slicing_gives_the_same_sentences_and_loses_nothing(
    text: str, cuts: list[int], language: str, max_chars: int, granularity: Granularity
) -> None:
    check(text, cuts, language, max_chars, granularity)


def test_any_slicing_of_long_token_streams_gives_the_same_sentences() -> None:
    chance = random.Random(7)
    for _ in range(40):
        text = "".join(chance.choice(ATOMS) + chance.choice(["", " "]) for _ in range(200))
        cuts = [chance.randrange(len(text) + 1) for _ in range(60)]
        granularity: Granularity = chance.choice(["sentence", "sentence", "clause", "none"])
        check(text, cuts, chance.choice(LANGUAGES), chance.choice([30, 120, 400]), granularity)


def test_text_is_split_where_a_reader_would_pause() -> None:
    for language, text, expected in TABLE:
        for size in (1, 3, 1000):
            slices = [text[at : at + size] for at in range(0, len(text), size)]
            sentences = split(text, slices, language=language, max_chars=400)
            assert [sentence.text for sentence in sentences] == expected, (language, text, size)


def test_the_table_holds_for_any_slicing() -> None:
    for language, text, _ in TABLE:
        chance = random.Random(text.encode("utf-8", "replace"))
        for _ in range(3):
            check(text, [chance.randrange(len(text) + 1) for _ in range(4)], language, 400)


def test_a_sentence_is_released_by_the_first_character_that_makes_it_certain() -> None:
    for text, released_by in [
        ("Hello world. How ", " "),  # one full word and white space
        ("At 3 p.m. today. Now ", " "),
        ("Great! 🎉 ", " "),  # an emoji is a word
        ("Title\n", "\n"),
        ("Hello.\n", "\n"),
        ("你好。再", "再"),  # neither word nor white space
        ("你好。」再", "再"),
        ("你好。 ", " "),
        ("他问：「好？」「", "「"),
    ]:
        splitter = SentenceSplitter()
        released = [(char, at) for at, char in enumerate(text) if splitter.push(char)]
        assert released[-1] == (released_by, len(text) - 1), text


def test_nothing_is_released_while_it_may_still_change() -> None:
    for text in ("Hello. ", "Hello. How", "Hello. -- ", "Dr. Smith ", "你好。", "你好。」", "3.14 "):
        assert SentenceSplitter().push(text) == [], text


def test_text_without_a_sentence_s_end_is_divided_at_the_longest_length() -> None:
    for text, pieces in [
        ("one two, three four five", ["one two,", "three four", "five"]),
        ("Hi there. Abcdefghi", ["Hi there.", "Abcdefghi"]),
        ("abcdefghijklmnop", ["abcdefghijkl", "mnop"]),
        ("abcdefghijk\ud83d\ude00x", ["abcdefghijk", "😀x"]),
    ]:
        assert [sentence.text for sentence in split(text, [text], language="en", max_chars=12)] == pieces, text


@pytest.mark.slow
def test_a_million_characters_without_a_boundary_never_pend_and_are_never_lost() -> None:
    for unit in ("x", "。", " ", "\u0301", "\u200d", "(", '"', "1.", "\ud83d"):
        text = unit * (1_000_000 // len(unit))
        splitter = SentenceSplitter(max_chars=400)
        pieces = splitter.push(text)
        assert splitter.pending_chars <= 400, unit  # so the work for each character is bounded, and the whole is linear
        pieces += splitter.finish()
        assert sum(piece.end - piece.start for piece in pieces) == len(text.strip()), unit
        assert all(len(piece.text) <= 400 for piece in pieces), unit


def test_a_divided_surrogate_pair_is_joined_and_a_lone_surrogate_is_replaced() -> None:
    splitter = SentenceSplitter()
    assert splitter.push("Hi \ud83d") == []
    assert splitter.push("\ude00 and \udc00. Then we ") == [Sentence(0, "Hi 😀 and \ufffd.", 0, 12)]
    assert splitter.finish() == [Sentence(1, "Then we", 13, 20)]


def test_after_finish_the_next_utterance_counts_from_zero() -> None:
    splitter = SentenceSplitter()
    splitter.push(" One. Two")
    assert splitter.finish() == [Sentence(0, "One.", 1, 5), Sentence(1, "Two", 6, 9)]
    assert splitter.finish() == []
    splitter.push("Three")
    assert splitter.finish() == [Sentence(0, "Three", 0, 5)]


def test_max_chars_must_hold_a_surrogate_pair() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        SentenceSplitter(max_chars=1)


def test_every_segment_is_returned_even_one_that_cannot_be_spoken() -> None:
    sentences = split("Great! 🎉", ["Great! 🎉"], language="en", max_chars=400)
    assert [(sentence.text, is_speakable(sentence.text)) for sentence in sentences] == [("Great!", True), ("🎉", False)]
    assert re.sub(r"\s", "", "".join(sentence.text for sentence in sentences)) == "Great!🎉"


# "|" is between clauses.
CLAUSES = [
    "Well, I think so,| but not today;| or maybe — just so.| Yes.",
    "Paris, France, is large,| and it costs 1,000:| not 3–5 euros (or so),| Bob.",
    "He came at last—|we had waited—|and sat down.",
    "然而，今天天气真的很好，|我们去公园散步；|你来吗？|好",
    "今天一共有来了１，０００个人，|好",
    "We read all the pages of 3– 5.| Yes.",
    "هذا هو الكتاب الجديد،| وهو جيد.| نعم",
    "He said it was fine.| So, we all left,| she stayed.",
    "At 10:30 or so,| p.m. or not, Dr. Smith went home,| alone.",
]


def test_clauses_are_divided_where_they_are_long_enough_to_be_spoken() -> None:
    for clauses in CLAUSES:
        text, expected = clauses.replace("|", ""), [clause.strip() for clause in clauses.split("|")]
        for size in (1, 5, 1000):
            slices = [text[at : at + size] for at in range(0, len(text), size)]
            spoken = split(text, slices, language="en", max_chars=400, granularity="clause")
            assert [sentence.text for sentence in spoken] == expected, (clauses, size)


def test_a_clause_is_released_by_the_first_character_after_it() -> None:
    for text, released_by in [("I think so too, ", " "), ("今天天气真好，我", "我"), ("So it was at last—a", "a")]:
        splitter = SentenceSplitter(granularity="clause")
        assert [(char, at) for at, char in enumerate(text) if splitter.push(char)] == [(released_by, len(text) - 1)]


def test_with_granularity_none_only_a_flush_and_the_longest_length_divide() -> None:
    splitter = SentenceSplitter(granularity="none", max_chars=30)
    assert splitter.push("One. Two!\nThree。好") == []
    assert splitter.flush() == [Sentence(0, "One. Two!\nThree。好", 0, 17)]
    assert [each.text for each in splitter.push(" Four is here. Five is here. Six is here.")] == [
        "Four is here. Five is here."
    ]
    assert [each.text for each in splitter.finish()] == ["Six is here."]


def test_after_a_flush_the_utterance_continues() -> None:
    splitter = SentenceSplitter()
    splitter.push(" One. Two")
    assert splitter.flush() == [Sentence(0, "One.", 1, 5), Sentence(1, "Two", 6, 9)]
    assert splitter.flush() == []
    assert splitter.pending_chars == 0
    splitter.push(" more")
    assert splitter.finish() == [Sentence(2, "more", 10, 14)]


def test_items_of_a_list_in_one_line_are_divided() -> None:
    assert [each.text for each in split("a) One b) Two", ["a) One b) Two"], language="en", max_chars=400)] == [
        "a) One",
        "b) Two",
    ]


@given(st.text(alphabet="ab  .,!?:\n\"'()。1", max_size=80), st.sampled_from(["sentence", "none"]))
@settings(max_examples=60)
def test_the_beginning_of_a_sentence_is_the_beginning_of_what_is_released_next(
    text: str, granularity: Granularity
) -> None:
    splitter = SentenceSplitter(max_chars=40, granularity=granularity)
    beginning: Sentence | None = None
    for char in [*text, None]:
        released = splitter.finish() if char is None else splitter.push(char)
        if released and beginning is not None:
            first = released[0]
            assert first.text.startswith(beginning.text)
            assert (first.index, first.start) == (beginning.index, beginning.start)
            beginning = None
        earlier, beginning = beginning, splitter.beginning
        assert earlier is None or (beginning is not None and beginning.text.startswith(earlier.text)), "it only grows"


def test_a_beginning_stops_before_anything_that_may_end_the_sentence() -> None:
    splitter = SentenceSplitter()
    assert splitter.push("I said so to Dr. Smith and") == []
    assert splitter.beginning == Sentence(0, "I said so to", 0, 12)
    assert SentenceSplitter(granularity="clause").beginning is None


# -- Pauses ------------------------------------------------------------------------------------------------------------

PAUSED = 'Wait. [pause:1.5s] Go on<break time="1s"/>there. [pause:500ms][pause 1s] A <b and [p end. [pause:2s]'


def test_a_pause_ends_a_sentence_and_is_before_the_next() -> None:
    splitter = SentenceSplitter()
    sentences = splitter.push(PAUSED) + splitter.finish()
    assert [(each.text, each.pause_s) for each in sentences] == [
        ("Wait.", 0.0),
        ("Go on", 1.5),
        ("there.", 1.0),
        ("A <b and [p end.", 1.5),
    ]
    assert all(PAUSED[each.start : each.end] == each.text for each in sentences)
    (again,) = splitter.push("Next one.") + splitter.finish()
    assert again.pause_s == 0.0, "a pause does not pass to the next utterance"


@given(
    cuts=st.lists(st.integers(0, len(PAUSED)), max_size=12), granularity=st.sampled_from(("sentence", "clause", "none"))
)
@settings(max_examples=50)
def test_any_slicing_gives_the_same_pauses(cuts: list[int], granularity: Granularity) -> None:
    def split(pieces: list[str]) -> list[Sentence]:
        splitter = SentenceSplitter(granularity=granularity, max_chars=60)
        return [each for piece in pieces for each in splitter.push(piece)] + splitter.finish()

    edges = [0, *sorted(cuts), len(PAUSED)]
    assert split([PAUSED[a:b] for a, b in pairwise(edges)]) == split([PAUSED])


def test_a_pause_has_a_maximum() -> None:
    for written in ("[pause:1e9s]", '<break time="1e999s"/>', "[pause:3s][pause:3s]"):
        (sentence,) = SentenceSplitter().push(f"{written}Go. Yes ")
        assert (sentence.text, sentence.pause_s, sentence.pause_shortened) == ("Go.", MAX_PAUSE_S, True), written


def test_a_beginning_stops_before_a_pause() -> None:
    splitter = SentenceSplitter()
    splitter.push("These words come first <break time")
    beginning = splitter.beginning
    assert beginning is not None
    assert beginning.text == "These words come first"


# -- A stalled stream --------------------------------------------------------------------------------------------------


def test_a_stalled_stream_keeps_its_unfinished_end() -> None:
    for text, finished, kept in (
        ("I like straw", ["I like"], "straw"),
        ("I like straw ", ["I like straw"], ""),
        ("One. Two, three", ["One.", "Two,"], "three"),
        ("It costs $3.", ["It costs"], "$3."),
        ("It is 3 km.", ["It is"], "3 km."),
        ("Ask Dr. ", ["Ask"], "Dr. "),
        ("Then Dr. J", ["Then"], "Dr. J"),
        ("See No. 5", ["See"], "No. 5"),
        ("See https://exam", ["See"], "https://exam"),
        ("Mail bob@ex", ["Mail"], "bob@ex"),
        ("at 5 p.m.", ["at"], "5 p.m."),
        ("Hello", [], "Hello"),
        ("Stop <break ti", ["Stop"], "<break ti"),
        ('He said "no"', ['He said "no"'], ""),
        ("Wait…", ["Wait…"], ""),
        ("so,", ["so,"], ""),
        ("我喜欢草", ["我喜欢草"], ""),
        ("", [], ""),
    ):
        splitter = SentenceSplitter()
        released = splitter.push(text) + splitter.flush_finished()
        assert [each.text for each in released] == finished, text
        assert splitter.pending_chars == len(kept), text


@given(st.text(alphabet="a1 .,$-@:/[<\nD", max_size=40), st.integers(0, 40))
@settings(max_examples=80)
def test_nothing_is_lost_where_a_stream_stalls(text: str, at: int) -> None:
    splitter = SentenceSplitter()
    sentences = splitter.push(text[:at]) + splitter.flush_finished() + splitter.push(text[at:]) + splitter.finish()
    assert "".join("".join(each.text.split()) for each in sentences) == "".join(text.split())
    assert all(text[each.start : each.end] == each.text for each in sentences)


# -- Abbreviations -----------------------------------------------------------------------------------------------------


def test_abbreviations_do_not_end_a_sentence_that_continues() -> None:
    for text in (
        "I saw Ms. Poe there.",
        "It takes approx. 5 minutes.",
        "See vol. 4.",
        "See ch. 2, eq. 6 and ext. 9.",
        "The temp. is low.",
        "The dept. of health, est. 1990, agrees.",
        "3 hrs. later",
        "5 lbs. of rice",
        "Mix 2 tbsp. sugar and 1 tsp. salt.",
        "Tue. the 3rd",
        "In Jan. 2020 and Feb. it rained.",
        "Use ./run.sh now.",
        "5! = 120",
        "Maj. Tom met Adm. Ng.",
    ):
        splitter = SentenceSplitter()
        assert [each.text for each in splitter.push(text) + splitter.finish()] == [text]


def test_abbreviations_end_a_sentence_before_a_capital() -> None:
    for text, sentences in (
        ("It took 3 hrs. Then we left.", ["It took 3 hrs.", "Then we left."]),
        ("We met on Tue. Nobody came.", ["We met on Tue.", "Nobody came."]),
        ("He came in. then he left.", ["He came in.", "then he left."]),
        ("Wow! 5! Great.", ["Wow!", "5!", "Great."]),
        ("Steps: 1. Do this. 2. Do that.", ["Steps: 1. Do this.", "2. Do that."]),
    ):
        splitter = SentenceSplitter()
        assert [each.text for each in splitter.push(text) + splitter.finish()] == sentences
