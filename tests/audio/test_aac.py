"""AAC: a valid ADTS stream of every sample, whose packets count what a decoder can make of them."""

import io
import itertools

import numpy as np
import pytest

from realtime_tts.audio.aac import DELAY_SAMPLES, FRAME_SAMPLES, RATES_HZ, AacCodec, adts_header
from realtime_tts.audio.format import AudioFormat, Encoding
from realtime_tts.audio.packet import Packet
from realtime_tts.audio.pcm import Float32
from realtime_tts.errors import UnsupportedFormat
from tests.audio.speechlike import speechlike

av = pytest.importorskip("av")


def encoded(samples: Float32, rate_hz: int, cuts: list[int]) -> list[Packet]:
    codec = AacCodec(rate_hz)
    edges = [0, *cuts, len(samples)]
    packets = [packet for start, end in itertools.pairwise(edges) for packet in codec.push(samples[start:end])]
    return packets + codec.finish()


def decoded(data: bytes) -> tuple[Float32, int]:
    with av.open(io.BytesIO(data), format="aac") as file:
        frames = [frame.to_ndarray()[0] for frame in file.decode(audio=0)]
        return np.concatenate(frames), file.streams.audio[0].rate


def test_every_rate_decodes_to_delay_samples_and_padding() -> None:
    for rate_hz in RATES_HZ:
        samples = speechlike(rate_hz, 0.7)
        packets = encoded(samples, rate_hz, [])
        found, found_rate_hz = decoded(b"".join(packet.data for packet in packets))
        assert found_rate_hz == rate_hz
        assert sum(packet.samples for packet in packets) == len(samples), rate_hz
        assert DELAY_SAMPLES + len(samples) <= len(found) < 2 * DELAY_SAMPLES + FRAME_SAMPLES + len(samples), rate_hz
        heard = found[DELAY_SAMPLES : DELAY_SAMPLES + len(samples)]
        assert np.corrcoef(heard, samples)[0, 1] > 0.95, rate_hz


def test_any_chunks_make_the_same_bytes() -> None:
    samples = speechlike(24_000, 0.5)
    once = b"".join(packet.data for packet in encoded(samples, 24_000, []))
    for cuts in ([1], [1023, 1024, 1025], list(range(100, 10_000, 97))):
        assert b"".join(packet.data for packet in encoded(samples, 24_000, cuts)) == once, cuts


def test_each_packet_counts_the_audio_that_can_be_decoded_so_far() -> None:
    codec, data, counted = AacCodec(24_000), b"", 0
    samples = speechlike(24_000, 0.5)
    for start in range(0, len(samples), 700):
        for packet in codec.push(samples[start : start + 700]):
            assert packet.samples > 0
            data, counted = data + packet.data, counted + packet.samples
            assert DELAY_SAMPLES + counted == len(decoded(data)[0]), start
    assert counted + sum(packet.samples for packet in codec.finish()) == len(samples)


def test_a_header_states_format_rate_and_length() -> None:
    # As FFmpeg writes it: AAC-LC, 24 kHz, mono, 100 bytes with the header.
    assert adts_header(93, 24_000) == bytes.fromhex("fff158400c9ffc")
    frames = av.open(io.BytesIO(encoded(speechlike(24_000, 0.1), 24_000, [])[0].data), format="aac")
    with frames:
        assert frames.streams.audio[0].codec_context.profile == "LC"


def test_a_rate_that_aac_does_not_have_is_refused() -> None:
    with pytest.raises(UnsupportedFormat, match="aac supports"):
        AudioFormat(Encoding.AAC, 20_000)


def test_without_the_package_aac_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("realtime_tts.audio.format.find_spec", lambda _name: None)
    with pytest.raises(UnsupportedFormat, match=r"realtime-tts\[aac\]") as refused:
        AudioFormat.parse("aac", 24_000)
    assert refused.value.param == "response_format"
