"""Stop texts: found however the text is divided, and never sent."""

from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.thinking.stop_texts import StopTexts


@given(
    pieces=st.lists(st.text("abc", max_size=4), max_size=12),
    stops=st.lists(st.text("abc", min_size=1, max_size=3), max_size=2),
)
@settings(deadline=None, max_examples=200)
def test_a_text_is_sent_up_to_the_first_stop_text_however_it_is_divided(pieces: list[str], stops: list[str]) -> None:
    matcher = StopTexts(stops)
    sent = ""
    for piece in pieces:
        sent += matcher.push(piece)
    whole = "".join(pieces)
    assert matcher.found is any(stop in whole for stop in stops)
    if not matcher.found:
        assert sent + matcher.flush() == whole
        return
    # The text ends before a stop text that was complete as soon as any other.
    assert any(whole.startswith(sent + stop) for stop in stops)


def test_text_that_begins_a_stop_text_is_held_back() -> None:
    matcher = StopTexts(["END"])
    assert matcher.push("the E") == "the "
    assert matcher.push("N") == ""
    assert matcher.push("T ") == "ENT "
    assert matcher.push("EN") == ""
    assert matcher.push("D and more") == ""
    assert matcher.found
    assert matcher.push("more") == ""


def test_without_stop_texts_everything_passes() -> None:
    matcher = StopTexts([""])
    assert matcher.push("a") == "a"
    assert not matcher.found
