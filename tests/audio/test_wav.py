"""Headers that other readers understand."""

import io
import wave

from hypothesis import given
from hypothesis import strategies as st

from realtime_tts.audio.format import AudioFormat
from realtime_tts.audio.wav import HEADER_BYTES, UNKNOWN_SIZE, wav_header


@given(samples=st.integers(0, 500), rate=st.integers(8000, 48_000))
def test_the_standard_library_reads_a_whole_file(samples: int, rate: int) -> None:
    data = bytes(2 * samples)
    with wave.open(io.BytesIO(wav_header(AudioFormat.parse("wav", rate), len(data)) + data)) as file:
        assert file.getparams()[:4] == (1, 2, rate, samples)
        assert file.readframes(samples) == data


def test_sizes_and_rates_are_those_that_the_standard_library_writes() -> None:
    data = bytes(100)
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setparams((1, 2, 22_050, 50, "NONE", ""))
        file.writeframes(data)
    assert wav_header(AudioFormat.parse("wav", 22_050), len(data)) + data == written.getvalue()


def test_a_stream_s_header_leaves_the_length_open() -> None:
    header = wav_header(AudioFormat.parse("wav", 24_000), None)
    assert len(header) == HEADER_BYTES
    assert int.from_bytes(header[4:8], "little") == int.from_bytes(header[40:44], "little") == UNKNOWN_SIZE


def test_the_standard_library_reads_a_stream_to_its_end() -> None:
    data = bytes(range(200))
    with wave.open(io.BytesIO(wav_header(AudioFormat.parse("wav", 24_000), None) + data)) as file:
        assert file.getparams()[:3] == (1, 2, 24_000)
        assert file.readframes(1_000) == data
