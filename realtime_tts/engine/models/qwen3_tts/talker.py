"""Frame after frame of codes for many requests at once: each has a slot, and may come, wait and go at any step."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from realtime_tts.engine.models.qwen3_tts.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3_tts.config import CONTROL_IDS, TalkerConfig
from realtime_tts.engine.models.qwen3_tts.layers import SlotCache, Span, Stack, load_stack
from realtime_tts.engine.models.qwen3_tts.predictor import CodePredictor, PredictorWeights, Recall, load_predictor
from realtime_tts.engine.models.qwen3_tts.prompt import Embeddings, Prompt, load_embeddings
from realtime_tts.engine.models.qwen3_tts.sampling import CodeSampling, choose, draw_batch, noise, penalised
from realtime_tts.errors import TextTooLong

SHORTEST_FRAMES = 2
"""The end is not drawn before so many frames (reference: min_new_tokens)."""


@dataclass(frozen=True, slots=True)
class TalkerWeights:
    stack: Stack
    head: torch.Tensor
    embeddings: Embeddings
    predictor: PredictorWeights


def load_weights(checkpoint: Checkpoint, config: TalkerConfig) -> TalkerWeights:
    """Takes every tensor under `talker.`.  Raises ModelNotUsable."""
    predictor = load_predictor(checkpoint, config)
    return TalkerWeights(
        stack=load_stack(checkpoint, "talker.model.", config),
        head=checkpoint.take("talker.codec_head.weight", (config.vocab_size, config.hidden_size)),
        embeddings=load_embeddings(checkpoint, config, predictor.embeddings),
        predictor=predictor,
    )


class State(StrEnum):
    """What a request in a slot waits for."""

    PREFILL = "prefill"
    READY = "ready"
    STARVED = "starved"
    """Its next step needs text that has not come yet."""
    FULL = "full"
    """Its slot has no room for one more frame."""
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Step:
    """What a step gave, row by row.  The codes of a row that has ended now are no frame."""

    codes: npt.NDArray[np.int64]
    """(n, 16)"""
    ended: tuple[bool, ...]


@dataclass(slots=True)
class _Row:
    """One request: `length` of its positions are in the cache, `frames` have been made."""

    prompt: torch.Tensor
    trailing: torch.Tensor
    text_complete: bool
    sampling: CodeSampling
    generator: torch.Generator
    length: int = 0
    frames: int = 0
    ended: bool = False


class Talker:
    """Slots for requests.  Owned by one thread; a row's codes do not depend on who else is in the batch.

    A step first feeds each row's last frame back, with the next of its text, then draws the next frame.  So a frame
    can be had before the text after it is known.
    """

    def __init__(
        self,
        config: TalkerConfig,
        weights: TalkerWeights,
        *,
        slots: int,
        max_len: int,
        text_pad_id: int,
        prefill_chunk: int = 512,
        recall: Recall = Recall.CACHE,
    ) -> None:
        if slots < 1 or prefill_chunk < 1 or not 2 <= max_len <= config.max_position_embeddings:
            raise ValueError(f"{slots} slots of {max_len} positions, {prefill_chunk} at a time, cannot be")
        self._config = config
        self._weights = weights
        self._chunk = prefill_chunk
        like = weights.head
        self._device = like.device
        self._cache = SlotCache(config, slots, max_len, like.device, like.dtype)
        self._predictor = CodePredictor(config, weights.predictor, slots, recall)
        self._rows: dict[int, _Row] = {}
        # The lowest free slot first: a full batch then lies side by side in the cache, and is read without a copy.
        self._free = list(range(slots))
        self._hidden = like.new_zeros(slots, config.hidden_size)
        self._frame = like.new_zeros(slots, config.hidden_size)
        self._seen = torch.zeros(slots, config.vocab_size, dtype=torch.bool, device=like.device)
        self._mute = torch.zeros(config.vocab_size, dtype=torch.bool, device=like.device)
        self._mute[-CONTROL_IDS:] = True
        self._mute[config.codec_eos_token_id] = False
        with torch.inference_mode():
            self._text_pad = weights.embeddings.text((text_pad_id,))[0]

    @property
    def free_slots(self) -> int:
        return len(self._free)

    def join(self, prompt: Prompt, sampling: CodeSampling) -> int:
        """Gives the request a slot; there must be a free one.  Raises TextTooLong where it can never fit."""
        assert self._free, "no slot is free"
        if len(prompt.embeddings) > self._cache.max_len:
            raise TextTooLong(f"the prompt has {len(prompt.embeddings)} positions, and {self._cache.max_len} fit")
        slot = heapq.heappop(self._free)
        generator = sampling.generator(self._device)
        self._rows[slot] = _Row(prompt.embeddings, prompt.trailing, prompt.text_complete, sampling, generator)
        return slot

    def append_text(self, slot: int, embeddings: torch.Tensor, *, complete: bool) -> None:
        """More of the text that goes in with the frames (PromptBuilder.more_text)."""
        row = self._rows[slot]
        assert not row.text_complete, f"the text of slot {slot} was complete"
        row.trailing = torch.cat([row.trailing, embeddings])
        row.text_complete = complete

    def release(self, slot: int) -> None:
        """Frees a slot, whatever its request was doing."""
        row = self._rows.pop(slot)
        self._cache.clear(slot, row.length)
        self._seen[slot] = False
        heapq.heappush(self._free, slot)

    def state(self, slot: int) -> State:
        row = self._rows[slot]
        if row.length < len(row.prompt):
            return State.PREFILL
        if row.ended:
            return State.ENDED
        if row.frames and row.length == self._cache.max_len:
            return State.FULL
        if row.frames > len(row.trailing) and not row.text_complete:
            return State.STARVED
        return State.READY

    def frames(self, slot: int) -> int:
        """How many frames the request has been given."""
        return self._rows[slot].frames

    def prefill(self, slots: Sequence[int]) -> None:
        """Reads the next chunk of each of these prompts, all in one batch."""
        self._assert_all(slots, State.PREFILL)
        order = sorted(slots)
        rows = [self._rows[slot] for slot in order]
        chunks = [row.prompt[row.length : row.length + self._chunk] for row in rows]
        counts = [len(chunk) for chunk in chunks]
        with torch.inference_mode():
            batch = torch.nn.utils.rnn.pad_sequence(chunks, batch_first=True)
            span = Span(order, [row.length for row in rows], counts)
            hidden = self._weights.stack(batch, self._cache, self._cache.places(span))
            # Only the last chunk's last position is ever used; the others overwrite each other.
            last = torch.tensor(counts, device=self._device) - 1
            self._hidden[order] = hidden[torch.arange(len(order), device=self._device), last]
        for row, count in zip(rows, counts, strict=True):
            row.length += count

    def step(self, slots: Sequence[int]) -> Step:
        """One more frame for each of these requests, in their order."""
        self._assert_all(slots, State.READY)
        order = sorted(slots)
        with torch.inference_mode():
            self._feed_back([slot for slot in order if self._rows[slot].frames])
            first = self._first_codes(order)
            ended = (first == self._config.codec_eos_token_id).tolist()
            codes = first.new_zeros(len(order), self._config.num_code_groups)
            codes[:, 0] = first
            if alive := [index for index, end in enumerate(ended) if not end]:
                codes[alive, 1:] = self._other_codes([order[index] for index in alive], first[alive])
        for slot, end in zip(order, ended, strict=True):
            self._rows[slot].ended = end
            self._rows[slot].frames += not end
        place = [order.index(slot) for slot in slots]
        return Step(codes.cpu().numpy()[place], tuple(ended[index] for index in place))

    def _feed_back(self, slots: Sequence[int]) -> None:
        """The last frame of each row, and the next of its text, go in; its next hidden state comes out."""
        if not slots:
            return
        rows = [self._rows[slot] for slot in slots]
        text = [row.trailing[t] if (t := row.frames - 1) < len(row.trailing) else self._text_pad for row in rows]
        inputs = self._frame[slots] + torch.stack(text)
        span = Span(slots, [row.length for row in rows], [1] * len(rows))
        self._hidden[slots] = self._weights.stack(inputs[:, None], self._cache, self._cache.places(span))[:, 0]
        for row in rows:
            row.length += 1

    def _first_codes(self, slots: Sequence[int]) -> torch.Tensor:
        """(n,), the end among them."""
        rows = [self._rows[slot] for slot in slots]
        scores = F.linear(self._hidden[slots], self._weights.head).float()
        penalties = [row.sampling.repetition_penalty for row in rows]
        scores = penalised(scores, self._seen[slots], scores.new_tensor(penalties))
        early = torch.tensor([row.frames < SHORTEST_FRAMES for row in rows], device=self._device)
        scores[early, self._config.codec_eos_token_id] = -torch.inf
        scores = scores.masked_fill(self._mute, -torch.inf)
        size = self._config.vocab_size
        draws = draw_batch([row.sampling.talker for row in rows], size, self._device)
        races = [noise(row.generator, size, draws=1, greedy=row.sampling.talker.greedy) for row in rows]
        return choose(scores, draws, torch.cat(races))

    def _other_codes(self, slots: Sequence[int], first: torch.Tensor) -> torch.Tensor:
        """(n, 15); remembers the whole frame, to be fed back."""
        rows = [self._rows[slot] for slot in slots]
        embedded = F.embedding(first, self._weights.embeddings.codec_table)
        size, count = self._predictor.codes, self._predictor.draws
        races = [noise(row.generator, size, draws=count, greedy=row.sampling.predictor.greedy) for row in rows]
        draws = draw_batch([row.sampling.predictor for row in rows], size, self._device)
        codes, embeddings = self._predictor.complete(self._hidden[slots], embedded, draws, torch.stack(races))
        self._frame[slots] = torch.cat([embedded[:, None], embeddings], 1).sum(1)
        self._seen[slots, first] = True
        return codes

    def _assert_all(self, slots: Sequence[int], state: State) -> None:
        assert slots, "no rows"
        assert len(set(slots)) == len(slots), f"a slot twice: {slots}"
        states = {slot: self.state(slot) for slot in slots}
        assert set(states.values()) == {state}, f"not all are to {state}: {states}"
