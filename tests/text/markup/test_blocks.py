"""Headings, quotes, bullets, rules and tables lose their mark-up."""

from tests.text.cleaning import assert_spoken


def test_headings_quotes_bullets_and_rules_are_dropped() -> None:
    assert_spoken(
        [
            ("## Two ##\n# One\n#1 C# #tag", "Two\nOne\n#1 C# #tag"),
            ("> quote\n>> deep\n>5 is more", "quote\ndeep\n>5 is more"),
            ("- a\n* b\n+ c\n1. d\n2) e\n- [ ] f\n- [x] g\n-5 h", "a\nb\nc\n1. d\n2) e\nf\ng\n-5 h"),
            ("one\n---\n* * *\n___\ntwo\n===\n", "one\n\n\n\ntwo\n\n"),
        ]
    )


def test_cells_of_a_table_become_a_list_with_commas() -> None:
    assert_spoken(
        [
            ("| a | b |\n|---|:-:|\n| 1 | **2** |\n| x |  |\n|c|d|\nend", "a, b\n\n1, 2\nx\nc, d\nend"),
        ]
    )
