"""Encoders: every format, any chunking, any rate and tempo, and exactly the samples that are due."""

import gc
import io
import math
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.audio.encoder import Packet, make_encoder
from realtime_tts.audio.format import AudioFormat, Encoding, has_aac
from realtime_tts.audio.g711 import alaw_bytes, mulaw_bytes
from realtime_tts.audio.pcm import Float32, pcm_bytes, pcm_samples
from realtime_tts.audio.resample import StreamingResampler
from realtime_tts.audio.wav import HEADER_BYTES, wav_header
from tests.audio.speechlike import snr_db, speechlike

RATES = [8_000, 11_025, 12_000, 16_000, 24_000, 44_100, 48_000]
TO_BYTES = {Encoding.PCM: pcm_bytes, Encoding.PCM_MULAW: mulaw_bytes, Encoding.PCM_ALAW: alaw_bytes}
NATIVE = (Encoding.OPUS, Encoding.FLAC, Encoding.MP3, Encoding.AAC)
"""Encoded by native libraries."""
ENCODINGS = [encoding for encoding in Encoding if encoding is not Encoding.AAC or has_aac()]
FORMATS = [
    AudioFormat(encoding, rate_hz)
    for encoding in ENCODINGS
    for rate_hz in RATES
    if encoding is not Encoding.OPUS or rate_hz not in (11_025, 44_100)
]
formats = st.sampled_from(FORMATS)


def encoded(
    samples: Float32,
    audio_format: AudioFormat,
    cuts: list[int] | None = None,
    *,
    model_rate_hz: int = 24_000,
    streaming: bool = True,
    tempo: float = 1.0,
) -> list[Packet]:
    encoder = make_encoder(audio_format, model_rate_hz, streaming=streaming, tempo=tempo)
    chunks = np.split(samples, sorted(cuts or []))
    return [packet for chunk in chunks for packet in encoder.encode(chunk)] + encoder.flush()


def resampled(samples: Float32, in_hz: int, out_hz: int) -> Float32:
    resampler = StreamingResampler(in_hz, out_hz)
    return np.concatenate((resampler.push(samples), resampler.flush()))


def due(samples: int, in_hz: int, out_hz: int, tempo: float) -> int:
    half = Fraction(1, 2)
    return math.floor(Fraction(math.floor(samples / Fraction(tempo) + half) * out_hz, in_hz) + half)


@given(
    audio_format=formats,
    model_rate_hz=st.sampled_from([16_000, 22_050, 24_000, 44_100]),
    streaming=st.booleans(),
    tempo=st.just(1.0) | st.floats(0.25, 4.0),
    length=st.integers(0, 5_000),
    data=st.data(),
)
@settings(max_examples=50)
def test_any_chunking_gives_the_same_bytes_and_exactly_the_samples_that_are_due(
    audio_format: AudioFormat, model_rate_hz: int, streaming: bool, tempo: float, length: int, data: st.DataObject
) -> None:
    samples = np.resize(speechlike(model_rate_hz, 0.25), length)
    cuts = data.draw(st.lists(st.integers(0, length), max_size=6))
    chunked, once = (
        encoded(samples, audio_format, chunking, model_rate_hz=model_rate_hz, streaming=streaming, tempo=tempo)
        for chunking in (cuts, [])
    )
    total = due(length, model_rate_hz, audio_format.sample_rate_hz, tempo)
    assert sum(packet.samples for packet in chunked) == sum(packet.samples for packet in once) == total
    assert all(packet.samples > 0 and packet.data for packet in chunked)
    assert b"".join(packet.data for packet in chunked) == b"".join(packet.data for packet in once)
    if audio_format.encoding is Encoding.OPUS:
        assert chunked == once
    if not streaming:
        assert len(chunked) == (1 if total else 0)


@given(encoding=st.sampled_from(sorted(TO_BYTES)), rate_hz=st.sampled_from(RATES), length=st.integers(0, 5_000))
def test_headerless_formats_are_exactly_the_resampled_audio(encoding: Encoding, rate_hz: int, length: int) -> None:
    samples = np.random.default_rng(length).uniform(-1, 1, length).astype(np.float32)
    expected = TO_BYTES[encoding](resampled(samples, 24_000, rate_hz))
    for streaming in (True, False):
        packets = encoded(samples, AudioFormat(encoding, rate_hz), [length // 3], streaming=streaming)
        assert b"".join(packet.data for packet in packets) == expected


def test_wav_is_pcm_after_a_header() -> None:
    for rate_hz in RATES:
        samples = speechlike(24_000)
        audio_format = AudioFormat(Encoding.WAV, rate_hz)
        data = pcm_bytes(resampled(samples, 24_000, rate_hz))
        streamed = encoded(samples, audio_format, [5_000])
        assert b"".join(packet.data for packet in streamed) == wav_header(audio_format, None) + data, rate_hz
        assert len(streamed[0].data) == HEADER_BYTES + 2 * streamed[0].samples, rate_hz
        [whole] = encoded(samples, audio_format, [5_000], streaming=False)
        assert whole.data == wav_header(audio_format, len(data)) + data, rate_hz


def test_a_whole_file_states_its_rate_and_length_and_has_the_same_audio() -> None:
    samples = speechlike(24_000)
    for audio_format in FORMATS:
        if audio_format.encoding is Encoding.AAC:  # states no length: see test_aac.py
            continue
        [whole] = encoded(samples, audio_format, [3_000, 9_999], streaming=False)
        raw = {"pcm": "PCM_16", "pcm_mulaw": "ULAW", "pcm_alaw": "ALAW"}.get(audio_format.encoding)
        how = {"format": "RAW", "subtype": raw, "samplerate": audio_format.sample_rate_hz, "channels": 1} if raw else {}
        output, rate_hz = soundfile.read(io.BytesIO(whole.data), dtype="float32", **how)
        assert rate_hz == audio_format.sample_rate_hz, audio_format
        assert len(output) == whole.samples, audio_format
        lossy = audio_format.encoding in (Encoding.OPUS, Encoding.MP3)
        ratio_db = snr_db(resampled(samples, 24_000, rate_hz), np.asarray(output, np.float32))
        assert ratio_db > (12 if lossy else 34), audio_format


def with_middle(middle: float, rate_hz: int, *, streaming: bool, tempo: float) -> Float32:
    """The output for a constant whose middle sample is `middle`."""
    samples = np.full(24_000, 0.25, np.float32)
    samples[12_000] = middle
    packets = encoded(samples, AudioFormat(Encoding.PCM, rate_hz), streaming=streaming, tempo=tempo)
    return pcm_samples(b"".join(packet.data for packet in packets))


def test_one_broken_sample_is_one_click_and_not_a_hole() -> None:
    for rate_hz, streaming, tempo in product([8_000, 24_000, 48_000], [True, False], [1.0, 1.5]):
        clean = with_middle(0.25, rate_hz, streaming=streaming, tempo=tempo)
        for broken in (math.nan, math.inf, -math.inf, 1e30):
            changed = with_middle(broken, rate_hz, streaming=streaming, tempo=tempo) - clean
            off = np.flatnonzero(np.abs(changed) > 0.05)
            limit = rate_hz * (0.001 if tempo == 1.0 else 0.025)
            assert np.all(np.abs(off - rate_hz / 2 / tempo) < limit), (broken, rate_hz, streaming, tempo)


def test_no_samples_give_no_bytes_not_even_a_header() -> None:
    for encoding in ENCODINGS:
        for streaming in [True, False]:
            audio_format = AudioFormat(encoding, 24_000)
            for tempo in (1.0, 2.0):
                assert encoded(np.zeros(0, np.float32), audio_format, [0, 0], streaming=streaming, tempo=tempo) == [], (
                    streaming,
                    encoding,
                )


def test_only_opus_packets_have_something_to_skip() -> None:
    for encoding in ENCODINGS:
        for streaming in (True, False):
            skip = make_encoder(AudioFormat(encoding, 24_000), 24_000, streaming=streaming).pre_skip_samples
            assert skip == (156 if encoding is Encoding.OPUS and streaming else 0), encoding  # 6.5 ms


def test_a_tempo_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="tempo"):
        make_encoder(AudioFormat(Encoding.PCM, 24_000), 24_000, streaming=True, tempo=5.0)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the resident size from /proc")
@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize(
    "encoding", [each for each in ENCODINGS if each in (Encoding.OPUS, Encoding.FLAC, Encoding.MP3, Encoding.AAC)]
)
def test_a_thousand_encoders_leave_no_memory_allocated(encoding: Encoding, finished: bool) -> None:
    samples = speechlike(24_000, 0.05)

    def use(times: int) -> int:
        for number in range(times):
            encoder = make_encoder(AudioFormat(encoding, 24_000), 24_000, streaming=number % 2 == 0)
            encoder.encode(samples)
            if finished:
                encoder.flush()
        del encoder
        return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4_096

    gc.collect()
    before_bytes = use(100)
    assert use(1_000) - before_bytes < 10_000_000  # an Opus encoder's state is 25 kB, and the smallest
