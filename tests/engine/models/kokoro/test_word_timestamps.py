"""Tests of word timestamps: every word has one, in order and inside the sound, for any text and any pieces."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.api import Word
from realtime_tts.engine.models.kokoro.phonemes import Piece, split_phonemes
from realtime_tts.engine.models.kokoro.word_timestamps import WordTimestamps
from realtime_tts.text.offsets import AlignedText
from tests.aligned import aligned

FRAME_S = 0.025


def in_frames(words: Sequence[Word], text: str) -> list[tuple[str, float, float]]:
    """Each word with its times in frames, without rounding errors."""
    return [
        (text[word.start : word.end], round(word.start_s / FRAME_S, 9), round(word.end_s / FRAME_S, 9))
        for word in words
    ]


def pieces_of(phonemes: AlignedText, limit: int) -> list[Piece]:
    return [Piece(piece, (1,) * len(piece.text)) for piece in split_phonemes(phonemes, limit)]


def words_by_piece(
    text: str, pieces: list[Piece], durations: list[list[int]], frames: list[int]
) -> list[tuple[Word, ...]]:
    words = WordTimestamps(text, pieces)
    return [words.add_piece(counts, left) for counts, left in zip(durations, frames, strict=True)]


def test_words_share_the_space_between_them_and_exclude_pauses() -> None:
    # pad 4, of which 2 are removed; h i 3 + 2; comma 2; space 2; y o 1 + 1; full stop 6; pad 1
    text = "hi, yo."
    (words,) = words_by_piece(text, pieces_of(AlignedText.of(text), 510), [[4, 3, 2, 2, 2, 1, 1, 6, 1]], [20])
    assert in_frames(words, text) == [("hi,", 1, 7), ("yo.", 10, 13)]


def test_a_word_without_a_sound_has_the_time_of_its_pause_or_no_duration() -> None:
    text = "😀 a — b 😀"
    phonemes = aligned("a — b", [2, 3, 4, 5, 6])
    (words,) = words_by_piece(text, pieces_of(phonemes, 510), [[2, 2, 2, 4, 2, 2, 1]], [15])
    assert in_frames(words, text) == [
        ("😀", 0, 0),
        ("a", 1, 5),
        ("—", 5, 11),
        ("b", 11, 14),
        ("😀", 14, 14),
    ]


def test_a_word_is_complete_with_the_piece_that_ends_it() -> None:
    text = "aa bbbbbb cc"
    phonemes = AlignedText.of(text)
    pieces = [Piece(piece, (1,) * len(piece.text)) for piece in (phonemes.part(0, 5), phonemes.part(5, len(text)))]
    first, second = words_by_piece(text, pieces, [[1] * 7, [1] * 9], [7, 9])
    assert in_frames(first, text) == [("aa", 0, 3.5)]
    assert in_frames(second, text) == [("bbbbbb", 3.5, 12.5), ("cc", 12.5, 15)]


@settings(max_examples=60)
@given(st.data())
def test_times_are_in_order_and_inside_the_sound(data: st.DataObject) -> None:
    text = data.draw(st.text("ab.—😀 ", min_size=1, max_size=60).filter(str.strip))
    symbols = data.draw(st.text("ˈabc ,.", min_size=1, max_size=80))
    origins = sorted(data.draw(st.lists(st.integers(0, len(text) - 1), min_size=len(symbols), max_size=len(symbols))))
    pieces = pieces_of(aligned(symbols, origins), data.draw(st.integers(2, 30)))
    durations = [
        data.draw(st.lists(st.integers(1, 20), min_size=len(piece.tokens) + 2, max_size=len(piece.tokens) + 2))
        for piece in pieces
    ]
    frames = [max(1, sum(counts) - data.draw(st.integers(0, 20))) for counts in durations]
    words = [word for some in words_by_piece(text, pieces, durations, frames) for word in some]
    assert [text[word.start : word.end] for word in words] == text.split()
    assert all(0 <= word.start_s <= word.end_s <= sum(frames) * FRAME_S for word in words)
    assert all(one.end_s <= next_one.start_s for one, next_one in pairwise(words))
