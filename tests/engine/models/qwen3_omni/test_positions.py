"""Positions advance by one, except within an image."""

from realtime_tts.engine.models.qwen3_omni.image import Grid
from realtime_tts.engine.models.qwen3_omni.positions import Piece, ids_of, positions_of


def test_without_an_image_positions_are_plain() -> None:
    assert positions_of([Piece((1, 2)), Piece((3,))]) is None
    assert positions_of([]) is None


def test_an_image_has_rows_and_columns_and_text_continues_after_the_largest() -> None:
    pieces = [Piece((7, 8)), Piece((9,) * 6, Grid(2, 3)), Piece((7,)), Piece((9,) * 2, Grid(2, 1)), Piece((7, 8))]
    assert ids_of(pieces) == (7, 8, *(9,) * 6, 7, 9, 9, 7, 8)
    positions = positions_of(pieces)
    assert positions is not None
    assert positions.tolist() == [
        [0, 1, 2, 2, 2, 2, 2, 2, 5, 6, 6, 8, 9],
        [0, 1, 2, 2, 2, 3, 3, 3, 5, 6, 7, 8, 9],
        [0, 1, 2, 3, 4, 2, 3, 4, 5, 6, 6, 8, 9],
    ]


def test_an_empty_piece_has_no_positions() -> None:
    positions = positions_of([Piece(()), Piece((9,), Grid(1, 1)), Piece(())])
    assert positions is not None
    assert positions.tolist() == [[0], [0], [0]]
