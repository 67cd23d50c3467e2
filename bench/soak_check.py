"""Check of one conversation, sans I/O: order, bytes and ends of everything that the server sends.

The server speaks with `tone`, whose audio is known to the byte.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from realtime_tts.audio.pcm import pcm_bytes
from realtime_tts.engine.api import SynthesisRequest
from realtime_tts.engine.models import tone
from realtime_tts.frontends.native.frame_header import HEADER_BYTES, FrameHeader

BYTES_PER_SAMPLE = 2
OVERLOADED = "overloaded"


class Fault(Exception):
    """The server did not do what protocol.md says."""


class Refused(Exception):
    """The server has no capacity: not a fault."""


@lru_cache(maxsize=512)
def exact_pcm(text: str, voice: str, speed: float) -> bytes:
    return pcm_bytes(tone.render(SynthesisRequest("any", "any", text, voice, speed)))


def require(condition: bool, fault: str) -> None:
    if not condition:
        raise Fault(fault)


@dataclass(slots=True)
class Sentence:
    start: Mapping[str, Any]
    voice: str
    speed: float
    data: bytearray = field(default_factory=bytearray)
    reason: str = ""

    @property
    def text(self) -> str:
        return str(self.start["sentence_text"])

    @property
    def context(self) -> str | None:
        return self.start.get("context_id")

    def check(self, done: Mapping[str, Any]) -> None:
        self.reason = done["reason"]
        require(done["sentence_index"] == self.start["sentence_index"], f"{self.text!r}: another sentence is done")
        require(not done["error"], f"{self.text!r} failed")
        require(
            done["total_bytes"] == len(self.data), f"{self.text!r}: {len(self.data)} of {done['total_bytes']} bytes"
        )
        if self.start["format"] == "pcm" and self.start["sample_rate"] == tone.SAMPLE_RATE_HZ:
            exact = exact_pcm(self.text, self.voice, self.speed)
            if self.reason == "complete":
                require(bytes(self.data) == exact, f"{self.text!r}: other bytes")
            else:
                require(exact.startswith(bytes(self.data)), f"{self.text!r}: not the beginning of its audio")


class ConversationCheck:
    """Takes every frame of a connection.  Methods raise `Fault` or `Refused`."""

    def __init__(self) -> None:
        self.voice, self.speed = tone.VOICES[0].name, 1.0
        """As the client has configured them for the next utterance."""
        self.sentences: list[Sentence] = []
        self.done: list[Mapping[str, Any]] = []
        """`session.done` messages."""
        self.cancelled: list[Mapping[str, Any]] = []
        self.errors: list[Mapping[str, Any]] = []
        self.expected_errors = 0
        """How many errors the client has asked for."""
        self._open: dict[int, Sentence] = {}
        """By the number of their context."""
        self._next_index: dict[int, int] = {}
        """The next sentence of each utterance."""

    def take(self, frame: str | bytes) -> str:
        """Returns the type of the message, or "audio"."""
        if isinstance(frame, bytes):
            self._take_audio(frame)
            return "audio"
        message = json.loads(frame)
        kind: str = message["type"]
        match kind:
            case "audio.start":
                self._begin(message)
            case "audio.done":
                self._end(message)
            case "audio.cancelled":
                contexts = [sentence.context for sentence in self._open.values()]
                require(message.get("context_id") not in contexts, "audio.cancelled inside a sentence of its context")
                self.cancelled.append(message)
            case "session.done":
                count = self._next_index.pop(message["utterance_index"], 0)
                require(
                    message["reason"] == "cancelled" or message["total_sentences"] == count,
                    f"{count} sentences, and session.done says {message['total_sentences']}",
                )
                self.done.append(message)
            case "error":
                self._take_error(message)
        return kind

    def _begin(self, start: Mapping[str, Any]) -> None:
        number, utterance = start["context_number"], start["utterance_index"]
        require(number not in self._open, "a sentence begins inside another one of its context")
        require(start["frame_header"] or not self._open, "a sentence without headers begins inside another one")
        expected = self._next_index.get(utterance, 0)
        require(start["sentence_index"] == expected, f"sentence {start['sentence_index']} in place of {expected}")
        ended = [done["utterance_index"] for done in self.done]
        require(utterance not in ended, f"audio of utterance {utterance} after its session.done")
        self._next_index[utterance] = expected + 1
        self._open[number] = sentence = Sentence(start, self.voice, self.speed)
        self.sentences.append(sentence)

    def _take_audio(self, frame: bytes) -> None:
        require(bool(self._open), "audio outside of a sentence")
        number, sentence = next(iter(self._open.items()))
        if sentence.start["frame_header"]:
            header = FrameHeader.unpack(frame)
            require(
                header.context_number in self._open, f"audio of context {header.context_number} outside of a sentence"
            )
            sentence = self._open[header.context_number]
            require(header.sentence_index == sentence.start["sentence_index"], "audio of another sentence")
            frame = frame[HEADER_BYTES:]
            if sentence.start["format"] == "pcm":
                at = len(sentence.data) // BYTES_PER_SAMPLE
                require(header.sample_offset == at, f"a frame at {header.sample_offset}, not at {at}")
        else:
            require(len(self._open) == 1, f"audio without a header for one of contexts {number} and others")
        sentence.data += frame

    def _end(self, done: Mapping[str, Any]) -> None:
        contexts = [number for number, each in self._open.items() if each.context == done.get("context_id")]
        require(len(contexts) == 1, "audio.done without its audio.start")
        self._open.pop(contexts[0]).check(done)

    def _take_error(self, error: Mapping[str, Any]) -> None:
        if error["code"] == OVERLOADED:
            raise Refused(error["message"])
        self.errors.append(error)
        require(len(self.errors) <= self.expected_errors, f"{error['code']}: {error['message']}")

    def text_of(self, utterance: int) -> str:
        """What was spoken of an utterance, with one space between words."""
        texts = [each.text for each in self.sentences if each.start["utterance_index"] == utterance]
        return words(" ".join(texts))


def words(text: str) -> str:
    return " ".join(text.split())
