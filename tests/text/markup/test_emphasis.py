"""Emphasis is dropped, and stars, underscores and tildes that are signs stay."""

from tests.text.cleaning import assert_spoken


def test_emphasis_is_dropped() -> None:
    assert_spoken(
        [
            ("**bold** and *it*, __b__ _i_ ~~s~~ ***both***", "bold and it, b i s both"),
            ("2**3, x**2, un**believ**able, ** bold ** x", "2 3, x 2, unbelievable, bold x"),
            ("这是**重点**内容和*强调*的。", "这是重点内容和强调的。"),
        ]
    )


def test_signs_stay() -> None:
    assert_spoken(
        [
            ("5 * 3 * 2, snake_case_name, a*b, 2*(3+4)", "5 * 3 * 2, snake_case_name, a*b, 2*(3+4)"),
            ("2 < 3 and 4 > 1, <3, a < b, AT&T, ~5", "2 < 3 and 4 > 1, <3, a < b, AT&T, ~5"),
        ]
    )


def test_an_escaped_mark_stays_without_its_backslash() -> None:
    assert_spoken(
        [
            ("a \\*star\\* \\# C:\\new \\\\", "a *star* # C:\\new \\"),
        ]
    )
