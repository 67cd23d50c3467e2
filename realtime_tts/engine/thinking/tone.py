"""A Thinker with set costs and words, and its chat format: for tests, and for load without a language model.

A token is up to three bytes of UTF-8, so that a character may be divided between tokens, as with a real tokenizer.
"""

import codecs
import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from realtime_tts.engine.api import (
    AudioPart,
    ImagePart,
    Part,
    Role,
    SpokenContext,
    TextEnd,
    TextPart,
    TextSampling,
    Turn,
)
from realtime_tts.engine.scheduling.cost_model import LinearCost
from realtime_tts.engine.thinking.thinker import ChatPrompt, ThinkerInfo, ThinkerLoad, ThinkerPrompt, Written
from realtime_tts.errors import TextTooLong

TOKEN_BYTES = 3
INPUT_RATE_HZ = 16_000
HIDDEN = 2
PADS_PER_S = 13
"""As Qwen3-Omni has them."""
IMAGE_PATCH = 32
MAX_POSITIONS = 16_384

_FIRST_SPECIAL = 1 << 28
END, AUDIO_PAD, IMAGE_PAD = _FIRST_SPECIAL, _FIRST_SPECIAL + 1, _FIRST_SPECIAL + 2
_START = {role: _FIRST_SPECIAL + 3 + number for number, role in enumerate(Role)}


def to_ids(text: str) -> tuple[int, ...]:
    """A token is its bytes as a number, with their count above them."""
    data = text.encode("utf-8", "replace")
    pieces = (data[at : at + TOKEN_BYTES] for at in range(0, len(data), TOKEN_BYTES))
    return tuple((len(piece) << 24) + int.from_bytes(piece) for piece in pieces)


def _bytes_of(token: int) -> bytes:
    return (token & 0xFFFFFF).to_bytes(TOKEN_BYTES)[TOKEN_BYTES - (token >> 24) :]


class ToneDecoder:
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        return self._decoder.decode(_bytes_of(token))

    def flush(self) -> str:
        return self._decoder.decode(b"", final=True)


class ToneChat:
    def prompt(self, turns: Sequence[Turn], *, spoken: bool) -> ChatPrompt:
        ids = (*(token for turn in turns for token in _turn_ids(turn)), _START[Role.ASSISTANT])
        parts = [part for turn in turns for part in turn.parts]
        audio = tuple(part for part in parts if isinstance(part, AudioPart))
        images = tuple(part for part in parts if isinstance(part, ImagePart))
        user_ids = [token for turn in turns if turn.role is Role.USER for token in _turn_ids(turn)]
        context = SpokenContext(np.array(user_ids, np.int32), hashlib.sha256(repr(user_ids).encode()).hexdigest())
        wants_rows = spoken and bool(audio or images)
        return ChatPrompt(ThinkerPrompt(ids, audio, images, wants_rows), context)

    def decoder(self) -> ToneDecoder:
        return ToneDecoder()


def _turn_ids(turn: Turn) -> Iterator[int]:
    yield _START[turn.role]
    for part in turn.parts:
        yield from _part_ids(part)
    yield END


def _part_ids(part: Part) -> Sequence[int]:
    match part:
        case TextPart(text=text):
            return to_ids(text)
        case AudioPart(samples=samples):
            return (AUDIO_PAD,) * math.ceil(len(samples) * PADS_PER_S / INPUT_RATE_HZ)
        case ImagePart(pixels=pixels):
            height, width, _channels = pixels.shape
            return (IMAGE_PAD,) * int(math.ceil(height / IMAGE_PATCH) * math.ceil(width / IMAGE_PATCH))


def answer(text: str, audio: Sequence[AudioPart] = (), images: Sequence[ImagePart] = ()) -> str:
    """What is answered to a user turn."""
    sentences = [f"You said: {text}"] if text or not (audio or images) else []
    sentences += [f"I received {len(part.samples) / INPUT_RATE_HZ:.1f} s of audio." for part in audio]
    sentences += [f"I received an image of {p.pixels.shape[1]} x {p.pixels.shape[0]} pixels." for p in images]
    return " ".join(sentences)


@dataclass(frozen=True, slots=True)
class ThinkerCosts:
    """Seconds that a step takes: `base + per_row·rows + per_prompt_token·(prompt tokens read)`."""

    base_s: float = 0.0
    per_row_s: float = 0.0
    per_prompt_token_s: float = 0.0


@dataclass(slots=True)
class _Row:
    prompt: ThinkerPrompt
    max_tokens: int
    unread: int
    ids: tuple[int, ...]
    """Of the whole answer."""
    written: int = 0

    @property
    def positions(self) -> int:
        return len(self.prompt.ids) + self.max_tokens


class ToneThinker:
    """Answers that it received the last user turn, a token a step for each row."""

    def __init__(
        self,
        costs: ThinkerCosts,
        wait_s: Callable[[float], None],
        *,
        positions: int = 64 * MAX_POSITIONS,
        words: Callable[[str, Sequence[AudioPart], Sequence[ImagePart]], str] = answer,
    ) -> None:
        """`words` gives the answer to a user turn; `wait_s` is how a step spends its cost."""
        self.rows: dict[str, _Row] = {}
        self._costs = costs
        self._wait_s = wait_s
        self._positions = positions
        self._words = words

    @property
    def info(self) -> ThinkerInfo:
        return ThinkerInfo(
            hidden=HIDDEN,
            max_positions=min(MAX_POSITIONS, self._positions),
            end_ids=frozenset({END}),
            input_modalities=frozenset({"audio", "image"}),
            step=LinearCost(self._costs.base_s, self._costs.per_row_s),
            prompt_token_s=self._costs.per_prompt_token_s,
        )

    def join(self, request_id: str, prompt: ThinkerPrompt, sampling: TextSampling) -> None:
        if len(prompt.ids) + sampling.max_tokens > self.info.max_positions:
            raise TextTooLong(f"the conversation has {len(prompt.ids)} tokens, which leaves too few for the answer")
        ids = to_ids(self._words(_last_user_text(prompt.ids), prompt.audio, prompt.images))
        self.rows[request_id] = _Row(prompt, sampling.max_tokens, len(prompt.ids), ids)

    def step(self, max_prompt_tokens: int | None = None) -> Sequence[Written]:
        if not self.rows:
            return ()
        read = left = sum(row.unread for row in self.rows.values())
        if max_prompt_tokens is not None:
            read = left = min(read, max_prompt_tokens)
        for row in self.rows.values():
            part = min(row.unread, left)
            row.unread -= part
            left -= part
        writing = [(request_id, row) for request_id, row in self.rows.items() if not row.unread]
        costs = self._costs
        self._wait_s(costs.base_s + costs.per_row_s * len(writing) + costs.per_prompt_token_s * read)
        return [self._write(request_id, row) for request_id, row in writing]

    def _write(self, request_id: str, row: _Row) -> Written:
        rows = None
        if row.prompt.wants_rows and not row.written:
            pads = sum(token in (AUDIO_PAD, IMAGE_PAD) for token in row.prompt.ids)
            rows = np.zeros((pads, HIDDEN), np.uint16)
        ids = row.ids[row.written : row.written + 1]
        row.written += len(ids)
        end = None
        if row.written == len(row.ids):
            end = TextEnd.STOP
        elif row.written == row.max_tokens:
            end = TextEnd.LENGTH
        if end is not None:
            del self.rows[request_id]
        return Written(request_id, ids, end, rows)

    def leave(self, request_id: str) -> None:
        self.rows.pop(request_id, None)

    def load(self) -> ThinkerLoad:
        waiting = [row for row in self.rows.values() if row.unread]
        return ThinkerLoad(
            running=len(self.rows) - len(waiting),
            waiting=len(waiting),
            unread_prompt_tokens=sum(row.unread for row in waiting),
            free_positions=self._positions - sum(row.positions for row in self.rows.values()),
            positions=self._positions,
        )

    def close(self) -> None:
        self.rows.clear()


def _last_user_text(ids: Sequence[int]) -> str:
    start = max((at for at, token in enumerate(ids) if token == _START[Role.USER]), default=len(ids))
    end = ids.index(END, start) if start < len(ids) else start
    return b"".join(_bytes_of(token) for token in ids[start:end] if token < _FIRST_SPECIAL).decode("utf-8", "replace")
