"""Any text can be shown and encoded."""

from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.text.unicode import encodable, printable


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=300))
def test_any_text_can_be_encoded_after_it_was_made_encodable(text: str) -> None:
    encodable(text).encode()
    assert len(printable(text)) <= 200
    if text.isascii():
        assert encodable(text) == text


def test_pairs_of_surrogates_are_joined_and_lone_ones_replaced() -> None:
    assert encodable("\ud83c\udf89 \ud83c") == "\U0001f389 \ufffd"
