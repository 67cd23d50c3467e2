"""Pauses in a text: which forms are read, and how long they are."""

import math

from realtime_tts.text.pauses import PAUSE, PAUSE_HEAD, pause_s


def test_forms_of_a_pause() -> None:
    for written, seconds in (
        ("[pause:1.5s]", 1.5),
        ("[pause:500ms]", 0.5),
        ("[Pause 2 seconds]", 2.0),
        ("[pause:3]", 3.0),
        ("[pause:1e9s]", 1e9),
        ("[pause:1e999s]", math.inf),
        ("[pause:-1s]", 0.0),
        ('<break time="1s"/>', 1.0),
        ("<BREAK time='250ms' />", 0.25),
        ('<break strength="strong"/>', 0.75),
        ('<break strength="none"/>', 0.0),
        ("<break/>", 0.5),
        ("<break>", 0.5),
        ('<break time="soon"/>', 0.5),
    ):
        match = PAUSE.fullmatch(written)
        assert match is not None, written
        assert pause_s(match) == seconds, written


def test_other_text_is_no_pause() -> None:
    for text in ("[pause]", "[pause: button]", "[paused]", "<breakfast>", "pause:1s", "<break the rules", "[1]"):
        assert PAUSE.search(text) is None, text


def test_the_start_of_a_pause_is_recognised_at_the_end_of_the_text() -> None:
    for written in ("[pause:1.5s]", '<break time="1s"/>'):
        for end in range(1, len(written)):
            assert PAUSE_HEAD.search("Hi " + written[:end]), written[:end]
    for text in ("Hi", "[pause:1s]", "a < b", "<b>bold</b>", "[1] so"):
        assert PAUSE_HEAD.search(text) is None, text
