"""A recording that somebody has sent, to samples: wav, flac, ogg or mp3, and never more memory than was allowed."""

import base64
import binascii
import io
import math
from dataclasses import dataclass

import numpy as np
import soundfile

from realtime_tts.audio.pcm import Float32, playable
from realtime_tts.errors import InvalidConfig

MAX_BYTES = 10 * 1024 * 1024
MIN_RATE_HZ, MAX_RATE_HZ = 4_000, 192_000
MAX_CHANNELS = 8
BLOCK_FRAMES = 16_384
FORMATS = ("WAV", "WAVEX", "FLAC", "OGG", "MP3")
"""By libsndfile's names.  It knows twenty more, whose parsers nobody needs and attackers like."""


@dataclass(frozen=True, slots=True)
class AudioUrl:
    """A recording that is still to be fetched, by whoever may decide that."""

    url: str


class _Sequential(soundfile.SoundFile):  # type: ignore[misc]
    """Read from front to end.  soundfile else seeks after each block, and fails at the end of a flac of open length."""

    def seekable(self) -> bool:
        return False


def parse_ref_audio(value: str, *, max_bytes: int = MAX_BYTES) -> bytes | AudioUrl:
    """What `ref_audio` holds: a data URL or bare base64 gives its bytes, an http(s) URL is only told to be one.

    Raises `InvalidConfig`.
    """
    start = value[:8].lower()
    if start.startswith(("http://", "https://")):
        return AudioUrl(value)
    if start.startswith("data:"):
        head, comma, value = value.partition(",")
        if not comma or not head.lower().endswith(";base64"):
            raise InvalidConfig("a data URL must be data:audio/...;base64,...", param="ref_audio")
    if len(value) * 3 // 4 > max_bytes + 3:
        raise InvalidConfig(f"at most {max_bytes} bytes", param="ref_audio")
    try:
        # Whitespace in it is usual: mail and command line tools break base64 into lines.
        data = base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidConfig("neither a data URL, nor base64, nor an http(s) URL", param="ref_audio") from None
    if not data:
        raise InvalidConfig("is empty", param="ref_audio")
    return data


def decode_audio(data: bytes, *, max_bytes: int, max_s: float) -> tuple[Float32, int]:
    """A whole file to mono float32 samples (n,) in [-1, 1], n > 0, and their rate in Hz.

    Raises `InvalidConfig` for what is too large or too long, is no sound, or has a rate, a number of channels or
    samples that no recording has.  What a header promises is believed only where it is too much.
    """
    if len(data) > max_bytes:
        raise InvalidConfig(f"at most {max_bytes} bytes, got {len(data)}", param="ref_audio")
    if not _is_known(data):
        raise InvalidConfig("is no wav, flac, ogg or mp3 file", param="ref_audio")
    try:
        with _Sequential(io.BytesIO(data)) as file:
            _check_header(file, max_s)
            samples = _read(file, math.floor(max_s * file.samplerate), max_s)
            return samples, int(file.samplerate)
    except (soundfile.SoundFileError, ValueError) as error:
        raise InvalidConfig(f"cannot be decoded: {str(error)[:200]}", param="ref_audio") from None


def _is_known(data: bytes) -> bool:
    if data[:4] == b"RIFF":
        return data[8:12] == b"WAVE"
    is_mpeg = data[:3] == b"ID3" or (data[:1] == b"\xff" and data[1:2] >= b"\xe0")
    return is_mpeg or data[:4] in (b"fLaC", b"OggS")


def _check_header(file: soundfile.SoundFile, max_s: float) -> None:
    if file.format not in FORMATS:
        raise InvalidConfig("is no wav, flac, ogg or mp3 file", param="ref_audio")
    if not MIN_RATE_HZ <= file.samplerate <= MAX_RATE_HZ:
        raise InvalidConfig(f"{file.samplerate} Hz is not from {MIN_RATE_HZ} to {MAX_RATE_HZ}", param="ref_audio")
    if not 1 <= file.channels <= MAX_CHANNELS:
        raise InvalidConfig(f"{file.channels} channels are not from 1 to {MAX_CHANNELS}", param="ref_audio")
    # A flac or an mp3 may leave its length open, which libsndfile tells as the largest number there is.
    if max_s * file.samplerate < file.frames < 2**62:
        raise _too_long(max_s)


def _read(file: soundfile.SoundFile, max_frames: int, max_s: float) -> Float32:
    """Block by block, so that a file that lies about its length costs no more than an honest one."""
    blocks: list[Float32] = []
    frames = 0
    while True:
        block = file.read(BLOCK_FRAMES, dtype="float32", always_2d=True)
        if not len(block):
            break
        frames += len(block)
        if frames > max_frames:
            raise _too_long(max_s)
        if not np.isfinite(block).all():
            raise InvalidConfig("holds samples that are no numbers", param="ref_audio")
        blocks.append(playable(block).mean(axis=1, dtype=np.float32))
    if not blocks:
        raise InvalidConfig("holds no sound", param="ref_audio")
    return np.concatenate(blocks)


def _too_long(max_s: float) -> InvalidConfig:
    return InvalidConfig(f"is longer than {max_s:g} s", param="ref_audio")
