"""What waits for more text, what replaces mark-up, and where everything came from."""

import re

from realtime_tts.text.scanner import NeedsMoreError, TextScanner


class Stars:
    """Drops "*" with a gap, replaces "<…>" of at most 6 characters, and drops what is between "{" and "}"."""

    def __init__(self, gap: str) -> None:
        self.scanner = TextScanner()
        self.gap = gap

    def feed(self, text: str, *, final: bool = False) -> str:
        return self.scanner.run(text, self.step, final=final)

    def step(self) -> None:
        scanner = self.scanner
        char = scanner.text[scanner.at]
        if char == "*":
            scanner.drop(scanner.at + 1, self.gap)
        elif char == "{":
            scanner.enter(self.step_braces, leave_at_text_end=True)
        elif char == "[":
            end = scanner.text.index("]")
            scanner.drop(scanner.at + 1)
            scanner.drop_later(end, end + 1, self.gap)
        elif char == "<" and (found := scanner.look(re.compile("<[a-z]*>"), re.compile(r"<[a-z]*\Z"), 6)):
            scanner.replace(found.end(), "!")
        else:
            scanner.keep(scanner.at + 1)

    def step_braces(self) -> None:
        scanner = self.scanner
        if scanner.text[scanner.at] == "}":
            scanner.leave()
        scanner.drop(scanner.at + 1)


def test_what_may_become_a_mark_waits_until_it_is_too_long_for_one() -> None:
    stars = Stars("")
    assert stars.feed("a<b") == "a"
    assert stars.scanner.held_chars == 2
    assert stars.feed("cd>e") == "!e"
    offsets = stars.scanner.offsets
    assert (offsets.source(1), offsets.source_end(2), offsets.source(2)) == (1, 6, 6)
    assert stars.feed("<abcd") == ""
    assert stars.feed("e>") == "<abcde>"
    assert stars.feed("<a") == ""
    assert stars.feed("", final=True) == "<a"


def test_a_mark_leaves_what_keeps_two_words_apart_and_no_more() -> None:
    for gap, text, expected in [
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
    ]:
        assert Stars(gap).feed(text, final=True) == expected, (gap, text)


def test_a_gap_comes_from_where_the_mark_was() -> None:
    stars = Stars(" ")
    assert stars.feed("a**b") == "a b"
    offsets = stars.scanner.offsets
    assert [offsets.source(at) for at in range(4)] == [0, 1, 3, 4]
    assert [offsets.source_end(at) for at in range(4)] == [0, 1, 3, 4]
    offsets.forget(3)
    assert offsets.runs == 1


def test_what_is_entered_lasts_until_it_is_left_or_the_text_ends() -> None:
    stars = Stars("")
    assert stars.feed("a{b}c{d") == "ac"
    assert stars.feed("e", final=True) == ""
    assert stars.feed("f") == "f"
    assert stars.feed("[g{h]i") == "gi"


def test_the_end_of_a_link_is_dropped_after_its_text() -> None:
    assert Stars(" ").feed("a [b<c]d") == "a b<c d"


def test_more_is_wanted_only_while_the_text_has_not_ended() -> None:
    stars = Stars("")
    stars.feed("a")
    try:
        stars.scanner.want_more()
    except NeedsMoreError:
        pass
    else:
        raise AssertionError("more text may follow")
