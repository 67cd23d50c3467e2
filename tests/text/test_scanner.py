"""What waits for more, what is put where a mark was, and where everything came from."""

import re

import pytest

from realtime_tts.text.scanner import TextScanner, is_word


class Stars(TextScanner):
    """Takes "*" for a mark that leaves `gap`, and "<…>" for one of at most 6 characters."""

    def __init__(self, gap: str) -> None:
        super().__init__()
        self.gap = gap

    def feed(self, text: str, *, final: bool = False) -> str:
        self._text += text
        return self._run(final=final)

    def _step(self) -> None:
        char = self._text[self._at]
        if char == "*":
            self._drop(self._at + 1, self.gap)
        elif char == "<" and (found := self._look(re.compile("<[a-z]*>"), re.compile(r"<[a-z]*\Z"), 6)):
            self._replace(found.end(), "!")
        else:
            self._pass(self._at + 1)

    def _left_inner_text(self) -> None:
        raise AssertionError("no links here")


def test_what_may_become_a_mark_waits_until_it_is_too_long_for_one() -> None:
    scanner = Stars("")
    assert scanner.feed("a<b") == "a"
    assert scanner.held_chars == 2
    assert scanner.feed("cd>e") == "!e"
    assert (scanner.source(1), scanner.source_end(2), scanner.source(2)) == (1, 6, 6)
    assert scanner.feed("<abcd") == ""
    assert scanner.feed("e>") == "<abcde>"
    assert scanner.feed("<a") == ""
    assert scanner.feed("", final=True) == "<a"


@pytest.mark.parametrize(
    ("gap", "text", "expected"),
    [
        ("", "a*b", "ab"),
        (" ", "a*b", "a b"),
        (" ", "a**b", "a b"),
        (" ", "a* b", "a b"),
        (" ", "a *b", "a b"),
        (" ", "a * b", "a b"),
        (" ", "a*.", "a."),
        (" ", "(*a*)", "(a)"),
        (" ", "* a", "a"),
        ("digits", "a*b 2*b 2*3", "ab 2 b 2 3"),
        ("\n", "a*b*\nc *d*", "a\nb\nc \nd"),
        (", ", "a*b*\n*c", "a, b\nc"),
    ],
)
def test_a_mark_leaves_what_keeps_two_words_apart_and_no_more(gap: str, text: str, expected: str) -> None:
    assert Stars(gap).feed(text, final=True) == expected


def test_what_was_put_in_place_of_a_mark_comes_from_there() -> None:
    scanner = Stars(" ")
    assert scanner.feed("a**b") == "a b"
    assert [scanner.source(at) for at in range(4)] == [0, 1, 3, 4]
    assert [scanner.source_end(at) for at in range(4)] == [0, 1, 3, 4]
    scanner.forget(3)
    assert scanner.mapped_stretches == 1


@pytest.mark.parametrize(
    ("char", "expected"), [("a", True), ("7", True), ("é", True), ("", False), (".", False), ("好", False)]
)
def test_letters_that_join_their_neighbours_make_words(char: str, expected: bool) -> None:
    assert is_word(char) is expected
