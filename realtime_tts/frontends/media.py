"""Audio and images that a client sends in a conversation: from base64 and files to what the model reads."""

import base64
import binascii
import hashlib
import io

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from realtime_tts.audio.decode import decode_audio
from realtime_tts.audio.resample import StreamingResampler
from realtime_tts.engine.api import AudioPart, ImagePart
from realtime_tts.errors import InvalidConfig, InvalidMedia
from realtime_tts.session.answer_turn import MAX_AUDIO_S, audio_part

MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_PIXELS = 12_845_056
"""As the published preprocessor of Qwen3-Omni has it.  Checked before an image is decoded."""
MAX_ASPECT = 200
IMAGE_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")


def data_of(value: str, *, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """The bytes of a data URL or of bare base64.  Raises `InvalidMedia`."""
    if value[:5].lower() == "data:":
        head, comma, value = value.partition(",")
        if not comma or not head.lower().endswith(";base64"):
            raise InvalidMedia("a data URL must be data:...;base64,...")
    if len(value) * 3 // 4 > max_bytes + 3:
        raise InvalidMedia(f"at most {max_bytes} bytes")
    try:
        data = base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidMedia("must be base64 or a data URL") from None
    if not data:
        raise InvalidMedia("is empty")
    return data


def is_http_url(value: str) -> bool:
    return value[:8].lower().startswith(("http://", "https://"))


def decode_image(data: bytes) -> ImagePart:
    """The first picture of a file, upright, as RGB.  Takes up to a fraction of a second.  Raises `InvalidMedia`."""
    try:
        with Image.open(io.BytesIO(data), formats=IMAGE_FORMATS) as opened:
            _check_size(*opened.size)  # by its header: nothing is decoded yet
            upright = ImageOps.exif_transpose(opened)
            pixels = np.array(_flattened(upright), np.uint8)
    except InvalidMedia:
        raise
    except UnidentifiedImageError:
        raise InvalidMedia(f"the image must be {', '.join(IMAGE_FORMATS)}") from None
    except Image.DecompressionBombError:
        raise InvalidMedia(f"an image may have {MAX_PIXELS} pixels") from None
    except Exception as error:
        # Pillow raises many kinds for files that are damaged or made to do harm.
        raise InvalidMedia(f"the image cannot be decoded ({type(error).__name__})") from None
    digest = hashlib.sha256(str(pixels.shape).encode() + pixels.tobytes()).hexdigest()
    return ImagePart(pixels, digest)


def _check_size(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise InvalidMedia(f"an image may have {MAX_PIXELS} pixels, this has {width} x {height}")
    if width < 1 or height < 1 or max(width, height) > MAX_ASPECT * min(width, height):
        raise InvalidMedia(f"an image may be {MAX_ASPECT} times as long as wide, this has {width} x {height}")


def _flattened(image: Image.Image) -> Image.Image:
    """What is transparent becomes white."""
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        layer = image.convert("RGBA")
        background = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        return Image.alpha_composite(background, layer).convert("RGB")
    return image.convert("RGB")


def decode_audio_part(data: bytes, rate_hz: int, *, max_bytes: int = MAX_FILE_BYTES) -> AudioPart:
    """A file of audio, mono, at the model's rate.  Takes up to some seconds.  Raises `InvalidMedia`."""
    try:
        samples, file_hz = decode_audio(data, max_bytes=max_bytes, max_s=MAX_AUDIO_S)
    except InvalidConfig as error:
        raise InvalidMedia(f"the audio {error.args[0]}") from None
    resampler = StreamingResampler(file_hz, rate_hz)
    resampled = np.concatenate((resampler.push(samples), resampler.flush()))
    if not len(resampled):
        raise InvalidMedia("the audio contains no samples")
    return audio_part(resampled)
