"""Word classes of homographs, from the words around them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.text.english.homographs import Sentence, WordClass

VERB, PAST, PARTICIPLE, NOUN = WordClass.VERB, WordClass.PAST, WordClass.PARTICIPLE, WordClass.NOUN
ADJECTIVE, OTHER = WordClass.ADJECTIVE, WordClass.OTHER

WORDS = ("I", "the", "read", "used", "a", "record", "to", "it", "live", ",", ".", "-", "close", "A", "her", "was")
CLASSES = [
    ("live", "I live in Paris.", VERB),
    ("live", "People live longer now.", VERB),
    ("live", "a live show", OTHER),
    ("live", "Live music tonight.", OTHER),
    ("use", "Don't use it.", VERB),
    ("use", "the use of it", NOUN),
    ("use", "It is of no use.", NOUN),
    ("close", "We are close to home.", OTHER),
    ("close", "Close the door.", VERB),
    ("close", "at the close of the day", NOUN),
    ("read", "I read it yesterday.", PAST),
    ("read", "I have never read it.", PARTICIPLE),
    ("read", "Did you read it?", OTHER),
    ("read", "I read every day.", OTHER),
    ("read", "a well-read man", PARTICIPLE),
    ("used", "I used to run.", PAST),
    ("used", "It is used to make glass.", OTHER),
    ("record", "Please record it.", VERB),
    ("record", "a new record", NOUN),
    ("produce", "Factories produce cars.", VERB),
    ("produce", "the produce aisle", ADJECTIVE),
    ("contract", "Metals contract when cold.", VERB),
    ("lives", "She lives alone.", VERB),
    ("lives", "He saved their lives.", NOUN),
    ("export", "We import and export cars.", VERB),
    ("minute", "A minute ago", OTHER),
    ("minute", "very minute details", ADJECTIVE),
    ("wound", "He wound the clock.", PAST),
    ("wound", "The wound healed.", OTHER),
    ("dove", "the dove dove into the bushes", OTHER),
]


def test_classes_of_homographs() -> None:
    for word, text, expected in CLASSES:
        sentence = Sentence(text)
        if word == "export":
            sentence.word_class(text.index("import"))
        assert sentence.word_class(text.lower().index(word)) is expected, text


def test_meanings_that_no_word_class_tells_apart() -> None:
    for text, word, meaning in (
        ("a lead pipe", "lead", "metal"),
        ("Lead the way.", "Lead", None),
        ("Send me your resume.", "resume", "document"),
        ("Resume the game.", "Resume", None),
        ("Polish the table.", "Polish", "shine"),
        ("Polish food", "Polish", None),
        ("Vitamin A is good.", "A", "letter"),
        ("The A plus student", "A", "letter"),
        ("A dog barked.", "A", None),
        ("I got an A.", "A", "letter"),
    ):
        assert Sentence(text).sense(text.index(word)) == meaning, text


@given(st.lists(st.sampled_from(WORDS), max_size=20))
@settings(max_examples=50)
def test_any_text_has_classes(words: list[str]) -> None:
    text = " ".join(words)
    sentence, at = Sentence(text), 0
    for word in words:
        if word.isalpha():
            assert sentence.word_class(at) in WordClass
        at += len(word) + 1
