"""From samples to the wire: streamed bytes are the whole's bytes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.audio.encoder import make_encoder
from realtime_tts.audio.format import AudioFormat
from realtime_tts.audio.pcm import Float32, pcm_samples
from realtime_tts.audio.wav import HEADER_BYTES, wav_header


@given(
    encoding=st.sampled_from(["pcm", "wav"]),
    rate=st.sampled_from([8_000, 24_000, 44_100]),
    lengths=st.lists(st.integers(0, 3_000), max_size=6),
)
@settings(deadline=None)
def test_streamed_and_whole_are_the_same_audio(encoding: str, rate: int, lengths: list[int]) -> None:
    audio_format = AudioFormat.parse(encoding, rate)
    chunks = [np.random.default_rng(n).uniform(-1, 1, n).astype(np.float32) for n in lengths]
    streaming, whole = (make_encoder(audio_format, 24_000, streaming=s) for s in (True, False))
    streamed = b"".join([*map(streaming.encode, chunks), streaming.flush()])
    assert all(whole.encode(chunk) == b"" for chunk in chunks)
    complete = whole.flush()
    header = HEADER_BYTES if encoding == "wav" and complete else 0
    assert streamed[header:] == complete[header:]
    if header:
        assert streamed[:header] == wav_header(audio_format, None)
        assert complete[:header] == wav_header(audio_format, len(complete) - header)
    assert streaming.samples_out == whole.samples_out == audio_format.samples_in(len(complete) - header)


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("rate", [8_000, 24_000, 48_000])
@pytest.mark.parametrize("broken", [float("nan"), float("inf"), float("-inf"), 1e30])
def test_one_broken_sample_is_one_click_and_not_a_hole(broken: float, rate: int, streaming: bool) -> None:
    def sound(middle: float) -> Float32:
        samples = np.full(24_000, 0.25, np.float32)
        samples[12_000] = middle
        encoder = make_encoder(AudioFormat.parse("pcm", rate), 24_000, streaming=streaming)
        return pcm_samples(encoder.encode(samples) + encoder.flush())

    off = np.flatnonzero(np.abs(sound(broken) - sound(0.25)) > 0.05)
    assert np.all(np.abs(off - rate / 2) < rate / 1000)


@pytest.mark.parametrize("streaming", [True, False])
def test_no_sound_is_no_bytes_not_even_a_header(streaming: bool) -> None:
    encoder = make_encoder(AudioFormat.parse("wav", 24_000), 24_000, streaming=streaming)
    assert encoder.encode(np.zeros(0, np.float32)) + encoder.flush() == b""
    assert encoder.samples_out == 0
