"""Every format over a real socket: other decoders get exactly the samples of the sentence."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import opuslib_next
import soundfile

from realtime_tts.audio.aac import DELAY_SAMPLES
from realtime_tts.audio.container import MP3_DELAY_SAMPLES
from realtime_tts.audio.decode import decode_audio
from realtime_tts.audio.format import has_aac
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


def from_file(sentence: ReceivedSentence) -> Float32:
    samples, rate_hz = decode_audio(sentence.audio, max_bytes=10_000_000, max_s=60)  # libsndfile
    assert rate_hz == sentence.sample_rate
    return samples


def from_raw(subtype: str) -> Callable[[ReceivedSentence], Float32]:
    def decoded(sentence: ReceivedSentence) -> Float32:
        raw = {"format": "RAW", "channels": 1, "samplerate": sentence.sample_rate, "subtype": subtype}
        samples, _ = soundfile.read(io.BytesIO(sentence.audio), dtype="float32", **raw)
        return np.asarray(samples, np.float32)

    return decoded


def from_packets(sentence: ReceivedSentence) -> Float32:
    decoder = opuslib_next.Decoder(sentence.sample_rate, 1)
    frame = sentence.sample_rate // 50
    pcm = b"".join(decoder.decode(packet, frame) for packet in sentence.frames)
    samples = np.float32(1 / 32768) * np.frombuffer(pcm, "<i2").astype(np.float32)
    skip = sentence.start["pre_skip"]
    return samples[skip : skip + sentence.done["samples"]]


def from_mp3_stream(sentence: ReceivedSentence) -> Float32:
    samples = from_file(sentence)
    return samples[MP3_DELAY_SAMPLES : MP3_DELAY_SAMPLES + sentence.done["samples"]]


def from_aac(sentence: ReceivedSentence) -> Float32:
    import av  # an optional package

    with av.open(io.BytesIO(sentence.audio), "r", format="aac") as file:
        samples = np.concatenate([frame.to_ndarray()[0] for frame in file.decode(audio=0)])
        assert file.streams.audio[0].rate == sentence.sample_rate
    return np.asarray(samples[DELAY_SAMPLES : DELAY_SAMPLES + sentence.done["samples"]])


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
if has_aac():
    CASES += [
        ({"response_format": "aac"}, 24_000, from_aac, 10),
        ({"response_format": "aac", "stream_audio": False, "sample_rate": 44_100}, 44_100, from_aac, 10),
    ]
"""Configuration, expected rate in Hz, decoder, minimum signal-to-noise ratio in dB."""


async def test_every_format_decodes_to_the_audio_of_the_sentence() -> None:
    for config, rate_hz, decode, min_snr_db in CASES:
        async with tone_server() as (url, _), base_client(url, **{"stream_audio": True, **config}) as client:
            utterance = await client.speak(TEXT, word_by_word)
        (sentence,) = utterance.sentences
        expected = resampled(rate_hz)
        assert sentence.sample_rate == rate_hz, config
        assert sentence.done["samples"] == len(expected), config
        decoded = decode(sentence)
        assert len(decoded) == len(expected), config
        assert snr_db(expected, decoded) > min_snr_db, config


async def test_a_whole_file_of_opus_is_an_ogg_file() -> None:
    config = {"response_format": "opus", "stream_audio": False}
    async with tone_server() as (url, _), base_client(url, **config) as client:
        utterance = await client.speak(TEXT)
    (sentence,) = utterance.sentences
    assert sentence.frames[0][:4] == b"OggS"
    assert len(from_file(sentence)) == sentence.done["samples"]
    assert snr_db(spoken(TEXT), from_file(sentence)) > 10
