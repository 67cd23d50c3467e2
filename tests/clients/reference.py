"""The same text spoken through this server's own HTTP endpoint, to compare what a client received with."""

import io
import json
import urllib.request
import wave
from typing import Any

import numpy as np
import numpy.typing as npt

PCM_BYTES_PER_S = 48_000
"""16 bits, 24 kHz, mono."""


def spoken(url: str, text: str, **fields: Any) -> bytes:
    """PCM of the whole text."""
    return post(f"{url}/v1/audio/speech", {"input": text, "response_format": "pcm", **fields})


def post(url: str, body: dict[str, Any]) -> bytes:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return bytes(response.read())


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as response:
        return json.load(response)


def is_same_speech(one: bytes, other: bytes) -> bool:
    """Whether PCM is the same sentence in the same voice: samples differ by the chunks in which it was made."""
    if len(one) != len(other):
        return False
    loudness = [_loudness(np.frombuffer(data, "<i2").astype(np.float64)) for data in (one, other)]
    correlation = np.asarray(np.corrcoef(np.stack(loudness)))
    return float(correlation[0, 1]) > 0.95


def _loudness(samples: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """RMS of each 20 ms."""
    windows = samples[: len(samples) // 480 * 480].reshape(-1, 480)
    return np.asarray(np.sqrt((windows**2).mean(axis=1)))


def wav_samples(data: bytes) -> bytes:
    with wave.open(io.BytesIO(data)) as opened:
        assert (opened.getnchannels(), opened.getsampwidth(), opened.getframerate()) == (1, 2, 24_000)
        return bytes(opened.readframes(opened.getnframes()))


def is_format(data: bytes, name: str) -> bool:
    """Whether the first bytes are of this format."""
    begins: dict[str, tuple[bytes, ...]] = {
        "wav": (b"RIFF",),
        "mp3": (b"\xff\xfb", b"\xff\xf3", b"\xff\xf2", b"ID3"),
        "flac": (b"fLaC",),
        "opus": (b"OggS",),
        "aac": (b"\xff\xf1", b"\xff\xf9"),
    }
    if name == "pcm":
        return len(data) % 2 == 0 and not any(data.startswith(begin) for each in begins.values() for begin in each)
    return data.startswith(begins[name])
