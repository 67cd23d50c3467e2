"""FLAC and MP3, by libsndfile: whole files, and streams whose bytes leave as the library releases them."""

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
"""LAME's 576 and a decoder's 529: so much silence stands before the sound of an MP3 stream."""


class _Tape:
    """What libsndfile writes.  `take` gives what has come since the last time; what is rewritten later is not.

    No `BytesIO`: of a codec that is dropped unfinished the garbage collector may close that before libsndfile is done
    with it.
    """

    def __init__(self) -> None:
        self.data = bytearray()
        self.first_write_bytes = 0
        self.taken_bytes = 0
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
    def untaken_bytes(self) -> int:
        return len(self.data) - self.taken_bytes

    def take(self) -> bytes:
        piece = bytes(self.data[self.taken_bytes :])
        self.taken_bytes += len(piece)
        return piece


class _Container:
    """An open file of libsndfile's on a tape."""

    pre_skip_samples = 0

    def __init__(self, encoding: Encoding, sample_rate_hz: int, *, streaming: bool) -> None:
        self._encoding = encoding
        self._tape = _Tape()
        self._samples_in = 0
        self._file: soundfile.SoundFile | None = soundfile.SoundFile(
            self._tape, "w", sample_rate_hz, 1, **_settings(encoding, streaming)
        )

    def _write(self, samples: Float32) -> None:
        assert self._file is not None, "nothing may follow finish"
        # FLAC keeps the very samples of our PCM; LAME takes floats, and would spread one NaN over a frame.
        chosen: npt.NDArray[Any] = pcm_int16(samples) if self._encoding is Encoding.FLAC else playable(samples)
        self._file.write(chosen)
        self._samples_in += len(samples)

    def _close(self) -> None:
        assert self._file is not None, "nothing may follow finish"
        self._file.close()
        self._file = None


class FileCodec(_Container):
    """One complete file at the end.  A FLAC or MP3 file decodes to exactly the samples' number: its header has it."""

    def __init__(self, encoding: Encoding, sample_rate_hz: int) -> None:
        super().__init__(encoding, sample_rate_hz, streaming=False)

    def push(self, samples: Float32) -> list[Packet]:
        self._write(samples)
        return []

    def finish(self) -> list[Packet]:
        self._close()
        return [Packet(bytes(self._tape.data), self._samples_in)]


class StreamCodec(_Container):
    """Bytes as they come, under a header that knows no length.

    FLAC decodes to exactly the samples.  An MP3 stream cannot say where its sound begins and ends: it decodes to
    `MP3_DELAY_SAMPLES` of silence, every sample, and padding to the end of the last frame.

    A packet's `samples` are the sound that a decoder can make of all bytes so far, less what was counted before:
    exact for FLAC, on the safe side for MP3.  There is no packet without sound, and none without bytes.
    """

    def __init__(self, encoding: Encoding, sample_rate_hz: int) -> None:
        super().__init__(encoding, sample_rate_hz, streaming=True)
        frame_samples = 1_152 if sample_rate_hz >= 32_000 else 576  # MPEG-1; MPEG-2 and -2.5
        # Measured by decoding what had come: up to 3.3 frames beside the delay, for the bit reservoir.
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
        if samples <= 0 or not self._tape.untaken_bytes:
            return []
        if self._encoding is Encoding.MP3 and not self._tape.taken_bytes:
            # The first frame is an empty place for LAME's tag, which is written when all is known: in a stream it
            # would be one frame more of silence.
            self._tape.taken_bytes = self._tape.first_write_bytes
        self._counted_samples = decodable
        return [Packet(self._tape.take(), samples)]

    def _held_samples(self) -> int:
        if self._encoding is Encoding.MP3:
            return self._mp3_held_samples
        # libFLAC lets go of a block when it sees a sample of the next.
        return (self._samples_in - 1) % FLAC_BLOCK_SAMPLES + 1


def _settings(encoding: Encoding, streaming: bool) -> dict[str, Any]:
    if encoding is Encoding.FLAC:
        return {"format": "FLAC", "subtype": "PCM_16", "compression_level": FLAC_COMPRESSION}
    mp3 = {"format": "MP3", "subtype": "MPEG_LAYER_III"}
    return mp3 | {"bitrate_mode": "CONSTANT", "compression_level": MP3_COMPRESSION} if streaming else mp3
