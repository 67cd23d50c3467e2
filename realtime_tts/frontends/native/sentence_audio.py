"""The audio of one sentence as frames: binary ones, or `audio.chunk` messages with the times of its words."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field

from realtime_tts.audio.encoder import Encoder, Packet, make_encoder
from realtime_tts.engine.api import Samples
from realtime_tts.frontends.native.frame_header import FrameHeader
from realtime_tts.frontends.native.messages import AudioChunkMessage, WordTiming, encode
from realtime_tts.session.events import SentenceStarted, SpokenWord, Words
from realtime_tts.session.frontend import Frame


@dataclass(slots=True)
class SentenceAudio:
    """Binary frames, with counts of what was sent."""

    started: SentenceStarted
    encoder: Encoder
    frames: int = 0
    samples: int = 0
    total_bytes: int = 0
    """Without headers."""

    @property
    def sample_rate_hz(self) -> int:
        """The wire's."""
        return self.started.audio_format.sample_rate_hz

    def encode(self, samples: Samples) -> Iterable[Frame]:
        """Frames are counted when they are taken."""
        packets = self.encoder.encode(samples)
        return (self._frame(packets[0], is_last=False),) if len(packets) == 1 else self._frames(packets)

    def end(self, *, failed: bool) -> Iterable[Frame]:
        """The rest; the last frame is marked as such."""
        if failed and not self.started.streamed:
            return ()  # a file without its end would look complete
        packets = self.encoder.flush()
        if self.started.labelled and not packets:
            packets = [Packet(b"", 0)]  # carries the header that marks the end
        return self._frames(packets, ends=True)

    def _frames(self, packets: list[Packet], *, ends: bool = False) -> Iterable[Frame]:
        lasts = range(len(packets) - 1, -1, -1)
        return (self._frame(packet, is_last=ends and not left) for left, packet in zip(lasts, packets, strict=True))

    def _frame(self, packet: Packet, *, is_last: bool) -> Frame:
        data = packet.data
        if self.started.labelled:
            data = self._header(is_last=is_last) + data
        self._count(packet)
        return Frame(data, True, packet.samples / self.started.audio_format.sample_rate_hz)

    def _header(self, *, is_last: bool) -> bytes:
        started = self.started
        header = FrameHeader(started.context_number, started.sentence_index, self.frames, self.samples, last=is_last)
        return header.pack()

    def _count(self, packet: Packet) -> None:
        self.frames += 1
        self.samples += packet.samples
        self.total_bytes += len(packet.data)


@dataclass(slots=True)
class SentenceChunks(SentenceAudio):
    """`audio.chunk` messages, as vLLM-Omni sends them (serving_speech_stream.py, 0.30.0).

    The last one has no audio, and the times of all words, or null if they are not known.
    """

    _words: list[WordTiming] = field(default_factory=list)
    _has_words: bool = False

    def add_words(self, event: Words) -> None:
        self._has_words = event.status == "ok"
        self._words += map(word_timing, event.words)

    def end(self, *, failed: bool) -> Iterable[Frame]:
        if not failed or self.started.streamed:
            yield from self._frames(self.encoder.flush())
        if not failed:
            words = tuple(self._words) if self._has_words else None
            yield self._chunk(Packet(b"", 0), start_ms=0, words=words)

    def _frame(self, packet: Packet, *, is_last: bool) -> Frame:
        return self._chunk(packet, start_ms=self._position_ms)

    def _chunk(self, packet: Packet, *, start_ms: int, words: tuple[WordTiming, ...] | None = None) -> Frame:
        started, chunk_id = self.started, self.frames
        self._count(packet)
        message = AudioChunkMessage(
            utterance_index=started.utterance_index,
            sentence_index=started.sentence_index,
            chunk_id=chunk_id,
            chunk_start_ms=start_ms,
            chunk_end_ms=self._position_ms,
            sample_rate=self.sample_rate_hz,
            channels=started.audio_format.channels,
            audio_b64=base64.b64encode(packet.data).decode(),
            timestamps=words,
            context_id=started.context_id,
        )
        return Frame(encode(message), audio_s=packet.samples / self.sample_rate_hz)

    @property
    def _position_ms(self) -> int:
        return round(self.samples * 1000 / self.sample_rate_hz)


def sentence_audio(event: SentenceStarted) -> SentenceAudio:
    encoder = make_encoder(event.audio_format, event.sample_rate_hz, streaming=event.streamed)
    return SentenceChunks(event, encoder) if event.timestamps_in_audio else SentenceAudio(event, encoder)


def word_timing(word: SpokenWord) -> WordTiming:
    return WordTiming(
        word=word.text,
        start_ms=round(word.start_s * 1000, 1),
        end_ms=round(word.end_s * 1000, 1),
        text_span=word.text_span,
    )
