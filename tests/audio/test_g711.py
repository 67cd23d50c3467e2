"""G.711: the same codes as libsndfile, and the noise of eight bits."""

import io

import numpy as np
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.audio.g711 import alaw_bytes, mulaw_bytes
from realtime_tts.audio.pcm import Float32, pcm_int16
from tests.audio.speechlike import snr_db, speechlike

LAWS = ((mulaw_bytes, "ULAW"), (alaw_bytes, "ALAW"))
EVERY_SAMPLE = (np.arange(-32_767, 32_768) / 32_767).astype(np.float32)


def decoded(data: bytes, subtype: str) -> Float32:
    samples, _ = soundfile.read(
        io.BytesIO(data), dtype="float32", format="RAW", subtype=subtype, samplerate=8_000, channels=1
    )
    return np.asarray(samples, np.float32)


def test_every_16_bit_sample_has_the_code_that_libsndfile_gives_it() -> None:
    for to_bytes, subtype in LAWS:
        written = io.BytesIO()
        soundfile.write(written, pcm_int16(EVERY_SAMPLE), 8_000, format="RAW", subtype=subtype)
        assert to_bytes(EVERY_SAMPLE) == written.getvalue(), subtype


def test_speech_keeps_35_db() -> None:
    samples = speechlike(8_000)
    for to_bytes, subtype in LAWS:
        assert snr_db(samples, decoded(to_bytes(samples), subtype)) > 35, subtype


@given(values=st.lists(st.floats(width=32), max_size=50))
@settings(max_examples=50)
def test_any_float_becomes_one_byte_of_its_own_sign(values: list[float]) -> None:
    samples = np.array(values, np.float32)
    clean = np.clip(np.nan_to_num(samples, nan=0.0, posinf=1.0, neginf=-1.0), -1, 1)
    for to_bytes, subtype in LAWS:
        data = to_bytes(samples)
        assert len(data) == len(values), subtype
        if values:  # a segment's step is a sixteenth of its start, so half of one is at most a thirty-second
            assert np.all(np.abs(decoded(data, subtype) - clean) <= np.abs(clean) / 30 + 0.001), subtype


def test_silence_has_the_code_of_g711() -> None:
    silence = np.zeros(3, np.float32)
    assert mulaw_bytes(silence) == b"\xff\xff\xff"
    assert alaw_bytes(silence) == b"\xd5\xd5\xd5"
