"""The text intake: any slicing gives the same sentences, and one warning for all that has no words."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.frontends.native.messages import ServerWarning
from tests.session.harness import DONE, Harness, configured

TEXT = "One is here. Two, a longer one, is here too!  ... And a third?"


@given(cuts=st.lists(st.integers(0, len(TEXT)), max_size=8))
@settings(deadline=None, max_examples=25)
def test_any_slicing_of_a_text_is_the_same_requests(cuts: list[int]) -> None:
    def requests(pieces: list[str]) -> list[str]:
        harness = configured()
        harness.text(*pieces)
        harness.client(DONE)
        harness.speak_all()
        return [request.text for request in harness.submitted]

    edges = [0, *sorted(cuts), len(TEXT)]
    assert requests([TEXT[a:b] for a, b in pairwise(edges)]) == requests([TEXT])


def test_many_lines_without_words_are_one_warning() -> None:
    harness: Harness = configured()
    harness.text("...\n" * 50)
    harness.client(DONE)
    (warning,) = harness.of(ServerWarning)
    assert "49 more" in warning.message
    assert harness.submitted == []
