"""Clauses that are worth speaking alone, and the best place to divide text that has no sentence's end."""

from realtime_tts.text.clauses import ends_clause, forced_end


def test_a_clause_of_three_words_or_six_unspaced_characters_ends_at_its_mark() -> None:
    for head, char, expected in [
        ("Well, I think so,", " ", True),
        ("Well,", " ", False),
        ("so I think,", "x", False),
        ("今天天气真好，", "我", True),
        ("今天，", "我", False),
        ("今天一共有来了１，", "０", False),
        ("We read all pages of 3–", " ", False),
        ("He came at last—", "w", True),
    ]:
        assert ends_clause(head, 0, char) is expected, head


def test_text_is_divided_at_a_clause_or_white_space_or_between_visible_characters() -> None:
    for text, end in [
        ("one two, three four five", 8),  # a clause, if in the second half
        ("a, two threes four", 6),  # else white space
        ("一二三四五六七，八九十一二三", 8),
        ("12345678901,234", 12),
        ("abcdefghijke\u0301x", 11),
        ("abcdefghij👨\u200d👩\u200d👧", 10),
        ("abcdefghijk❤\ufe0f", 11),
        ("abcdefghijk👍🏽", 11),
        ("abcdefghijk🇩🇪", 11),
        ("abcdefghijk\ud83d\ude00x", 11),
    ]:
        assert forced_end(text[:13]) == end, ascii(text)
