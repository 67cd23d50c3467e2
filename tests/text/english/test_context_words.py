"""Tables of context words: lower-case words, each in the tables that its rules expect."""

from realtime_tts.text.english import context_words as tables


def test_tables_are_of_lower_case_words() -> None:
    for name, table in vars(tables).items():
        if isinstance(table, frozenset):
            assert table, name
            assert all(word == word.lower() and not word.isspace() for word in table), name


def test_an_object_does_not_begin_with_a_subject() -> None:
    assert not tables.OPENERS & (tables.SUBJECTS - {"you"})
    assert tables.OPENERS >= tables.OBJECTS


def test_words_that_may_be_nouns_are_no_function_words() -> None:
    assert tables.FUNCTION_WORDS.isdisjoint({"same", "other", "second", "record", "use"})
    assert tables.BE | tables.MODALS - {"lets"} <= tables.FUNCTION_WORDS
