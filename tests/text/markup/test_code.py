"""Backticks are dropped, and fenced blocks as a whole if that is asked for."""

from realtime_tts.text.cleaner import TextCleaner, TextFilter
from tests.text.cleaning import assert_spoken, clean


def test_inline_code_loses_its_backticks() -> None:
    assert_spoken(
        [
            ("use `code`, `a*b_c` and ``x`y`` or `f(**kw)`", "use code, a*b_c and xy or f(kw)"),
        ]
    )


def test_blocks_are_dropped() -> None:
    assert_spoken(
        [
            ("Look:\n```python\nprint('*')\n```\nDone.", "Look:\n\nDone."),
            ("Try ```js\nfoo()\n```\nor ```x``` so\n~~~\ny\n~~~\nz", "Try \nor x so\n\nz"),
            ("````md\n```\nx\n```\n````\nz ```sh\nls", "\nz "),
        ]
    )


def test_each_filter_drops_its_own_part_of_a_block() -> None:
    assert_spoken([("```py\na_b **c**\n```\nd", "a_b **c**\n\nd")], frozenset([TextFilter.MARKDOWN]))
    assert_spoken([("**a** `b`\n```\nc\n```\nd", "**a** b\n\nd")], frozenset([TextFilter.CODE]))


def test_a_block_stays_open_after_a_flush() -> None:
    cleaner = TextCleaner(frozenset([TextFilter.CODE]))
    assert cleaner.push("x\n```\na") + cleaner.flush() == "x\n"
    assert cleaner.push("b\n```\nc") + cleaner.flush() == "\nc"


def test_a_run_of_ticks_without_end_is_one_for_any_slicing() -> None:
    """Found by the fuzzer: divided after the twentieth, it opened code of another number of ticks."""
    text = "`" * 28 + "d" + "`" * 40 + "\\" * 51
    filters = frozenset({TextFilter.MARKDOWN, TextFilter.CODE})
    whole = clean(text, [text], filters)
    for cut in range(len(text)):
        assert clean(text, [text[:cut], text[cut:]], filters) == whole, cut
