"""Text comes back from its ids, in whole characters."""

import pytest

pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.models.qwen3.byte_pairs import load_byte_pairs
from realtime_tts.errors import ModelNotUsable
from tests.engine.models.qwen3_tts.tiny import GetTiny


@settings(max_examples=40, deadline=None)
@given(text=st.text(st.characters(codec="utf-8"), max_size=20))
def test_decoded_text_is_the_encoded_text_in_whole_characters(tiny: GetTiny, text: str) -> None:
    byte_pairs = load_byte_pairs(tiny("shallow").directory, 10_000)
    ids, decoder = byte_pairs.encode(text), byte_pairs.decoder()
    pieces = [decoder.push(token) for token in ids]
    assert all("\ufffd" not in piece for piece in pieces) or "\ufffd" in text
    decoded = "".join(pieces) + decoder.flush()
    assert byte_pairs.encode(decoded) == ids


def test_ids_that_end_within_a_character_are_flushed_as_a_replacement(tiny: GetTiny) -> None:
    byte_pairs = load_byte_pairs(tiny("shallow").directory, 10_000)
    first, *_rest = byte_pairs.encode("世")
    decoder = byte_pairs.decoder()
    assert decoder.push(first) == ""
    assert decoder.flush() == "\ufffd"
    assert decoder.flush() == ""


def test_a_word_of_several_tokens_is_no_single_token(tiny: GetTiny) -> None:
    byte_pairs = load_byte_pairs(tiny("shallow").directory, 10_000)
    assert byte_pairs.encode("user") == (byte_pairs.single_token("user"),)
    with pytest.raises(ModelNotUsable, match="single token"):
        byte_pairs.single_token("xyz")
