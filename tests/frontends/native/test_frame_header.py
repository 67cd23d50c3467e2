"""The frame header: the layout of protocol.md."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.frontends.native.frame_header import HEADER_BYTES, FrameHeader

U32 = st.integers(0, 2**32 - 1)


def test_a_header_has_sixteen_bytes_in_little_endian_order() -> None:
    header = FrameHeader(0x0102, 0x03040506, 0x0708090A, 0x0B0C0D0E, last=True)
    assert HEADER_BYTES == 16
    assert header.pack() == bytes.fromhex("01 01 0201 06050403 0a090807 0e0d0c0b")


@given(st.integers(0, 0xFFFF), U32, U32, U32, st.booleans(), st.binary(max_size=40))
def test_unpack_reverses_pack(
    context: int, sentence: int, sequence: int, offset: int, last: bool, audio: bytes
) -> None:
    header = FrameHeader(context, sentence, sequence, offset, last=last)
    assert FrameHeader.unpack(header.pack() + audio) == header


def test_a_frame_without_a_known_header_is_rejected() -> None:
    for frame in (b"", b"\x01" * 15, b"\x02" + bytes(15)):
        with pytest.raises(ValueError, match="header"):
            FrameHeader.unpack(frame)
