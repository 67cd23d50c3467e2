"""Audio and images of a conversation: decoded within limits, or a typed error."""

import base64
import contextlib
import io
import struct
import zlib

import numpy as np
import PIL.Image
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.errors import InvalidMedia
from realtime_tts.frontends.media import (
    MAX_PIXELS,
    data_of,
    decode_audio_part,
    decode_image,
    is_http_url,
)


def file_of(image: PIL.Image.Image, kind: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png_header(width: int, height: int) -> bytes:
    """A PNG of the stated size whose data is a few bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def test_data_urls_and_bare_base64_are_the_same() -> None:
    bare = base64.b64encode(b"hello").decode()
    for value in (bare, f"data:image/png;base64,{bare}", f"DATA:;base64,{bare[:3]}\n{bare[3:]}"):
        assert data_of(value) == b"hello", value


def test_data_that_is_not_base64_is_refused() -> None:
    for value in ("", "data:image/png,abc", "data:image/png;base64", "%%%", "data:;base64,"):
        with pytest.raises(InvalidMedia):
            data_of(value)
    with pytest.raises(InvalidMedia, match="at most 10 bytes"):
        data_of(base64.b64encode(bytes(20)).decode(), max_bytes=10)


def test_urls_are_recognised() -> None:
    assert is_http_url("https://example.com/a.png")
    assert is_http_url("HTTP://example.com/a.png")
    assert not is_http_url("data:image/png;base64,AAAA")


def test_images_of_every_format_are_rgb() -> None:
    image = PIL.Image.new("RGB", (40, 20), (255, 0, 0))
    for kind in ("PNG", "JPEG", "WEBP", "GIF", "BMP"):
        part = decode_image(file_of(image, kind))
        assert part.pixels.shape == (20, 40, 3), kind
        assert part.pixels.dtype == np.uint8
        assert abs(part.pixels.astype(int) - [255, 0, 0]).max() < 12, kind


def test_transparency_becomes_white_and_grey_becomes_rgb() -> None:
    clear = decode_image(file_of(PIL.Image.new("RGBA", (2, 2), (10, 10, 10, 0))))
    assert clear.pixels.min() == 255
    grey = decode_image(file_of(PIL.Image.new("L", (2, 2), 100)))
    assert (grey.pixels == 100).all()
    palette = PIL.Image.new("P", (2, 2), 3)
    assert decode_image(file_of(palette)).pixels.shape == (2, 2, 3)


def test_a_picture_is_turned_upright() -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    data = file_of(PIL.Image.new("RGB", (40, 20)), "JPEG", exif=exif)
    assert decode_image(data).pixels.shape == (40, 20, 3)


def test_the_key_is_that_of_the_pixels() -> None:
    one, two = (PIL.Image.new("RGB", (4, 4), colour) for colour in ((1, 2, 3), (3, 2, 1)))
    assert decode_image(file_of(one)).key == decode_image(file_of(one, "BMP")).key
    assert decode_image(file_of(one)).key != decode_image(file_of(two)).key


def test_images_that_are_too_large_are_refused_before_they_are_decoded() -> None:
    for width, height in ((MAX_PIXELS // 100 + 1, 100), (2**31 - 1, 2**31 - 1), (500, 2), (2, 500)):
        with pytest.raises(InvalidMedia):
            decode_image(png_header(width, height))


@given(data=st.binary(max_size=200))
@settings(deadline=None, max_examples=50)
def test_any_data_is_an_image_or_an_error(data: bytes) -> None:
    picture = file_of(PIL.Image.new("RGB", (8, 8), (1, 2, 3)))
    for each in (data, picture[:40] + data, picture[: len(picture) - len(data) % 60]):
        with contextlib.suppress(InvalidMedia):
            assert decode_image(each).pixels.shape == (8, 8, 3)


def test_audio_is_resampled_to_the_models_rate() -> None:
    file = io.BytesIO()
    soundfile.write(file, np.full(48_000, 0.25, np.float32), 48_000, format="FLAC")
    part = decode_audio_part(file.getvalue(), 16_000)
    assert part.samples.shape == (16_000,)
    assert abs(part.samples[1000:-1000] - 0.25).max() < 1e-3
    assert part.key == decode_audio_part(file.getvalue(), 16_000).key


def test_audio_that_is_not_valid_is_refused_without_the_name_of_another_field() -> None:
    long, nan = io.BytesIO(), io.BytesIO()
    soundfile.write(long, np.zeros(301 * 8000, np.float32), 8000, format="WAV")
    soundfile.write(nan, np.full(800, np.nan, np.float32), 8000, format="WAV", subtype="FLOAT")
    for data in (b"", b"no audio", long.getvalue(), nan.getvalue()):
        with pytest.raises(InvalidMedia, match=r"^the audio ") as caught:
            decode_audio_part(data, 16_000)
        assert "ref_audio" not in caught.value.message
