"""Decoder of received recordings: wav, flac, ogg or mp3 to samples, in bounded memory."""

import base64
import binascii
import io
import math
from dataclasses import dataclass

import numpy as np
import soundfile

from realtime_tts.audio.c_stderr import CStderr
from realtime_tts.audio.pcm import Float32, playable
from realtime_tts.errors import InvalidConfig

MAX_BYTES = 10 * 1024 * 1024
MIN_RATE_HZ, MAX_RATE_HZ = 4_000, 192_000
MAX_CHANNELS = 8
BLOCK_FRAMES = 16_384
FORMATS = ("WAV", "WAVEX", "FLAC", "OGG", "MP3")
"""By libsndfile's names.  Its parsers of twenty more formats are a risk without a use."""

_C_STDERR = CStderr()


@dataclass(frozen=True, slots=True)
class AudioUrl:
    """The address of a recording, which the caller may fetch or refuse."""

    url: str


class _Sequential(soundfile.SoundFile):  # type: ignore[misc]
    """Read from start to end.  Else soundfile seeks after each block, and fails at the end of a flac of open length."""

    def seekable(self) -> bool:
        return False


def parse_ref_audio(value: str, *, max_bytes: int = MAX_BYTES) -> bytes | AudioUrl:
    """The bytes of a `ref_audio` that is a data URL or bare base64, or the address in one that is an http(s) URL.

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
        # White space in it is common: mail and command line tools break base64 into lines.
        data = base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidConfig("must be a data URL, base64 or an http(s) URL", param="ref_audio") from None
    if not data:
        raise InvalidConfig("is empty", param="ref_audio")
    return data


def decode_audio(data: bytes, *, max_bytes: int, max_s: float) -> tuple[Float32, int]:
    """A whole file to mono float32 samples (n,) in [-1, 1], n > 0, and their rate in Hz.

    Raises `InvalidConfig` where the file is too large or too long, is not audio, or has an impossible sample rate,
    number of channels or samples.  A header's length only serves to refuse a file, not to reserve memory.
    """
    if len(data) > max_bytes:
        raise InvalidConfig(f"at most {max_bytes} bytes, got {len(data)}", param="ref_audio")
    if not _is_known(data):
        raise InvalidConfig("must be a wav, flac, ogg or mp3 file", param="ref_audio")
    try:
        with _C_STDERR.discarded(), _Sequential(io.BytesIO(data)) as file:
            _check_header(file, max_s)
            samples = _read(file, math.floor(max_s * file.samplerate), max_s)
            return samples, int(file.samplerate)
    except soundfile.LibsndfileError as error:
        # Without the prefix of `str(error)`, in which soundfile names its input by an address in memory.
        raise InvalidConfig(f"cannot be decoded: {error.error_string[:200]}", param="ref_audio") from None
    except (soundfile.SoundFileError, ValueError):
        raise InvalidConfig("cannot be decoded", param="ref_audio") from None


def _is_known(data: bytes) -> bool:
    if data[:4] == b"RIFF":
        return data[8:12] == b"WAVE"
    is_mpeg = data[:3] == b"ID3" or (data[:1] == b"\xff" and data[1:2] >= b"\xe0")
    return is_mpeg or data[:4] in (b"fLaC", b"OggS")


def _check_header(file: soundfile.SoundFile, max_s: float) -> None:
    if file.format not in FORMATS:
        raise InvalidConfig("must be a wav, flac, ogg or mp3 file", param="ref_audio")
    if not MIN_RATE_HZ <= file.samplerate <= MAX_RATE_HZ:
        raise InvalidConfig(f"must have {MIN_RATE_HZ} to {MAX_RATE_HZ} Hz, got {file.samplerate} Hz", param="ref_audio")
    if not 1 <= file.channels <= MAX_CHANNELS:
        raise InvalidConfig(f"must have 1 to {MAX_CHANNELS} channels, got {file.channels} channels", param="ref_audio")
    # A flac or an mp3 may leave its length open, which libsndfile reports as the largest possible number.
    if max_s * file.samplerate < file.frames < 2**62:
        raise _too_long(max_s)


def _read(file: soundfile.SoundFile, max_frames: int, max_s: float) -> Float32:
    """Block by block, so that a file with a wrong length in its header needs no more memory than another."""
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
            raise InvalidConfig("contains samples that are not finite numbers", param="ref_audio")
        blocks.append(playable(block).mean(axis=1, dtype=np.float32))
    if not blocks:
        raise InvalidConfig("contains no samples", param="ref_audio")
    return np.concatenate(blocks)


def _too_long(max_s: float) -> InvalidConfig:
    return InvalidConfig(f"is longer than {max_s:g} s", param="ref_audio")
