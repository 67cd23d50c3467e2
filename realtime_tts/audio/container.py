"""FLAC and MP3, by libsndfile: whole files, and streams of the bytes that the library has released."""

import io
from typing import Any

import numpy.typing as npt
import soundfile

from realtime_tts.audio.format import Encoding
from realtime_tts.audio.packet import Packet
from realtime_tts.audio.pcm import Float32, pcm_int16, playable

FLAC_BLOCK_SAMPLES = 1_152
FLAC_COMPRESSION = 0.25
"""libFLAC's level 2, whose blocks are 1152 samples; level 5's 4096 would hold back 171 ms at 24 kHz."""
MP3_COMPRESSION = 0.6
"""Of a stream, whose bit rate is constant: 65 kbit/s at 24 kHz, 160 at 44.1."""
MP3_DELAY_SAMPLES = 1_105
"""Silence before the audio of an MP3 stream: 576 samples of LAME and 529 of a decoder."""


class _Output:
    """The file that libsndfile writes.  `read_new` returns the bytes added since the last call, not rewritten ones.

    Not a `BytesIO`: when a codec is dropped unfinished, the garbage collector may close that before libsndfile is done
    with it.
    """

    def __init__(self) -> None:
        self.data = bytearray()
        self.first_write_bytes = 0
        self.released_bytes = 0
        self._at = 0

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self.data.extend(bytes(max(0, self._at - len(self.data))))
        self.data[self._at : self._at + len(piece)] = piece
        self._at += len(piece)
        self.first_write_bytes = self.first_write_bytes or len(piece)
        return len(piece)

    def read(self, size: int = -1) -> bytes:
        piece = bytes(self.data[self._at : None if size < 0 else self._at + size])
        self._at += len(piece)
        return piece

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self.data)}[whence]
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    @property
    def unreleased_bytes(self) -> int:
        return len(self.data) - self.released_bytes

    def read_new(self) -> bytes:
        piece = bytes(self.data[self.released_bytes :])
        self.released_bytes += len(piece)
        return piece


class _Container:
    """An open file of libsndfile's, in memory."""

    pre_skip_samples = 0

    def __init__(self, encoding: Encoding, sample_rate_hz: int, *, streaming: bool) -> None:
        self._encoding = encoding
        self._output = _Output()
        self._samples_in = 0
        self._file: soundfile.SoundFile | None = soundfile.SoundFile(
            self._output, "w", sample_rate_hz, 1, **_settings(encoding, streaming)
        )

    def _write(self, samples: Float32) -> None:
        assert self._file is not None, "nothing may follow finish"
        # FLAC keeps the same samples as our PCM; LAME gets floats, and would spread one NaN over a frame.
        chosen: npt.NDArray[Any] = pcm_int16(samples) if self._encoding is Encoding.FLAC else playable(samples)
        self._file.write(chosen)
        self._samples_in += len(samples)

    def _close(self) -> None:
        assert self._file is not None, "nothing may follow finish"
        self._file.close()
        self._file = None


class FileCodec(_Container):
    """One complete file at the end.  It decodes to exactly the pushed samples: its header has their number."""

    def __init__(self, encoding: Encoding, sample_rate_hz: int) -> None:
        super().__init__(encoding, sample_rate_hz, streaming=False)

    def push(self, samples: Float32) -> list[Packet]:
        self._write(samples)
        return []

    def finish(self) -> list[Packet]:
        self._close()
        return [Packet(bytes(self._output.data), self._samples_in)]


class StreamCodec(_Container):
    """A stream of bytes, with a header that states no length.

    FLAC decodes to exactly the samples.  An MP3 stream cannot state where its audio begins and ends: it decodes to
    `MP3_DELAY_SAMPLES` of silence, every sample, and padding to the end of the last frame.

    A packet's `samples` are the audio that a decoder can make of all bytes so far, less what was counted before:
    exact for FLAC, never too many for MP3.  Every packet has audio, and bytes.
    """

    def __init__(self, encoding: Encoding, sample_rate_hz: int) -> None:
        super().__init__(encoding, sample_rate_hz, streaming=True)
        frame_samples = 1_152 if sample_rate_hz >= 32_000 else 576  # MPEG-1; MPEG-2 and -2.5
        # Measured by decoding the bytes so far: up to 3.3 frames beside the delay, for the bit reservoir.
        self._mp3_held_samples = MP3_DELAY_SAMPLES + 4 * frame_samples
        self._counted_samples = 0

    def push(self, samples: Float32) -> list[Packet]:
        self._write(samples)
        return self._packet(self._samples_in - self._held_samples())

    def finish(self) -> list[Packet]:
        self._close()
        return self._packet(self._samples_in)

    def _packet(self, decodable: int) -> list[Packet]:
        samples = decodable - self._counted_samples
        if samples <= 0 or not self._output.unreleased_bytes:
            return []
        if self._encoding is Encoding.MP3 and not self._output.released_bytes:
            # The first frame is reserved for LAME's tag, which is written at the end: in a stream it would be one more
            # frame of silence.
            self._output.released_bytes = self._output.first_write_bytes
        self._counted_samples = decodable
        return [Packet(self._output.read_new(), samples)]

    def _held_samples(self) -> int:
        if self._encoding is Encoding.MP3:
            return self._mp3_held_samples
        # libFLAC releases a block at the first sample of the next.
        return (self._samples_in - 1) % FLAC_BLOCK_SAMPLES + 1


def _settings(encoding: Encoding, streaming: bool) -> dict[str, Any]:
    if encoding is Encoding.FLAC:
        return {"format": "FLAC", "subtype": "PCM_16", "compression_level": FLAC_COMPRESSION}
    mp3 = {"format": "MP3", "subtype": "MPEG_LAYER_III"}
    return mp3 | {"bitrate_mode": "CONSTANT", "compression_level": MP3_COMPRESSION} if streaming else mp3
