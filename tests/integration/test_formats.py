"""Every format over a real socket: decoded by others, it has every sample of the sound and nothing else."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import opuslib_next
import soundfile

from realtime_tts.audio.container import MP3_DELAY_SAMPLES
from realtime_tts.audio.decode import decode_audio
from realtime_tts.audio.pcm import Float32
from realtime_tts.audio.resample import StreamingResampler
from tests.audio.speechlike import snr_db
from tests.base_client import ReceivedSentence, base_client, word_by_word
from tests.fakes import spoken
from tests.serving import tone_server

TEXT = "One sentence of some length, to be decoded."


def resampled(rate_hz: int) -> Float32:
    resampler = StreamingResampler(24_000, rate_hz)
    return np.concatenate([resampler.push(spoken(TEXT)), resampler.flush()])


def from_file(heard: ReceivedSentence) -> Float32:
    samples, rate_hz = decode_audio(heard.audio, max_bytes=10_000_000, max_s=60)  # libsndfile
    assert rate_hz == heard.sample_rate
    return samples


def from_raw(subtype: str) -> Callable[[ReceivedSentence], Float32]:
    def decoded(heard: ReceivedSentence) -> Float32:
        raw = {"format": "RAW", "channels": 1, "samplerate": heard.sample_rate, "subtype": subtype}
        samples, _ = soundfile.read(io.BytesIO(heard.audio), dtype="float32", **raw)
        return np.asarray(samples, np.float32)

    return decoded


def from_packets(heard: ReceivedSentence) -> Float32:
    decoder = opuslib_next.Decoder(heard.sample_rate, 1)
    frame = heard.sample_rate // 50
    pcm = b"".join(decoder.decode(packet, frame) for packet in heard.frames)
    samples = np.float32(1 / 32768) * np.frombuffer(pcm, "<i2").astype(np.float32)
    skip = heard.start["pre_skip"]
    return samples[skip : skip + heard.done["samples"]]


def from_mp3_stream(heard: ReceivedSentence) -> Float32:
    samples = from_file(heard)
    return samples[MP3_DELAY_SAMPLES : MP3_DELAY_SAMPLES + heard.done["samples"]]


CASES: list[tuple[dict[str, Any], int, Callable[[ReceivedSentence], Float32], float]] = [
    ({"response_format": "pcm", "sample_rate": 16_000}, 16_000, from_raw("PCM_16"), 80),
    ({"response_format": "pcm", "sample_rate": 44_100}, 44_100, from_raw("PCM_16"), 80),
    ({"response_format": "pcm_mulaw"}, 8_000, from_raw("ULAW"), 30),
    ({"response_format": "pcm_alaw"}, 8_000, from_raw("ALAW"), 30),
    ({"response_format": "opus"}, 24_000, from_packets, 10),
    ({"response_format": "opus", "sample_rate": 48_000}, 48_000, from_packets, 10),
    ({"response_format": "flac"}, 24_000, from_file, 80),
    ({"response_format": "mp3"}, 24_000, from_mp3_stream, 10),
    ({"response_format": "wav", "stream_audio": False}, 24_000, from_file, 80),
    ({"response_format": "flac", "stream_audio": False, "sample_rate": 22_050}, 22_050, from_file, 80),
    ({"response_format": "mp3", "stream_audio": False}, 24_000, from_file, 10),
]
"""Configuration, expected rate in Hz, decoder, least signal-to-noise ratio in dB."""


async def test_every_format_decodes_to_the_same_audio_sample_for_sample() -> None:
    for config, rate_hz, decode, least_snr_db in CASES:
        async with tone_server() as (url, _), base_client(url, **{"stream_audio": True, **config}) as client:
            utterance = await client.speak(TEXT, word_by_word)
        (heard,) = utterance.sentences
        expected = resampled(rate_hz)
        assert heard.sample_rate == rate_hz, config
        assert heard.done["samples"] == len(expected), config
        decoded = decode(heard)
        assert len(decoded) == len(expected), config
        assert snr_db(expected, decoded) > least_snr_db, config


async def test_a_whole_file_of_opus_is_an_ogg_file() -> None:
    config = {"response_format": "opus", "stream_audio": False}
    async with tone_server() as (url, _), base_client(url, **config) as client:
        utterance = await client.speak(TEXT)
    (heard,) = utterance.sentences
    assert heard.frames[0][:4] == b"OggS"
    assert len(from_file(heard)) == heard.done["samples"]
    assert snr_db(spoken(TEXT), from_file(heard)) > 10
