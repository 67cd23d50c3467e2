"""Frame after frame of codes for many requests at once: each has a slot, and may come, wait and go at any step."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from realtime_tts.engine.models.qwen3_tts.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3_tts.config import CONTROL_IDS, TalkerConfig
from realtime_tts.engine.models.qwen3_tts.cuda_graph import GraphCache, HostCopy
from realtime_tts.engine.models.qwen3_tts.layers import KVPrefix, Places, SlotCache, Span, Stack, load_stack
from realtime_tts.engine.models.qwen3_tts.matrix import Matrix
from realtime_tts.engine.models.qwen3_tts.predictor import CodePredictor, PredictorWeights, Recall, load_predictor
from realtime_tts.engine.models.qwen3_tts.prompt import Embeddings, Prompt, load_embeddings
from realtime_tts.engine.models.qwen3_tts.sampling import CodeSampling, Draw, DrawTable, choose, penalised, refresh
from realtime_tts.errors import TextTooLong

WINDOW = 256
"""The shortest length of cache for which a step is captured, in positions; the others are its doubles."""
SHORTEST_FRAMES = 2
"""The end is not drawn before so many frames (reference: min_new_tokens)."""


@dataclass(frozen=True, slots=True)
class TalkerWeights:
    stack: Stack
    head: Matrix
    embeddings: Embeddings
    predictor: PredictorWeights


def load_weights(checkpoint: Checkpoint, config: TalkerConfig, *, compiled: bool = False) -> TalkerWeights:
    """Takes every tensor under `talker.`.  Raises ModelNotUsable."""
    predictor = load_predictor(checkpoint, config, compiled=compiled)
    return TalkerWeights(
        stack=load_stack(checkpoint, "talker.model.", config, compiled=compiled),
        head=Matrix(checkpoint.take("talker.codec_head.weight", (config.vocab_size, config.hidden_size))),
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


@dataclass(frozen=True, slots=True)
class _Batch:
    """Which slots a step computes, and which of them it was asked for."""

    slots: Sequence[int]
    """Asked for, from the lowest."""
    order: Sequence[int]
    """Computed; the very same `slots`, where nothing is computed for nobody."""
    index: "slice | torch.Tensor"
    """`order` as an index of a tensor of slots."""
    asked: torch.Tensor
    """`slots` as an index of a tensor of slots."""
    rows: "slice | torch.Tensor"
    """`slots` as an index of what was computed."""


class Talker:
    """Slots for requests.  Owned by one thread; a row's codes do not depend on who else is in the batch.

    A step first feeds each row's last frame back, with the next of its text, then draws the next frame.  So a frame
    can be had before the text after it is known.

    On a GPU a step is two launches, the stack and the code predictor, with the draw of the first codes between them,
    for the numbers of rows that `capture` has made ready.  They compute the lowest slots whether anybody asked for
    them or not, so that nothing has to be gathered; what a slot that was not asked for holds stays as it is.
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
        like = weights.embeddings.codec_table
        self._device = device = like.device
        self._cache = SlotCache(config, slots, max_len, device, like.dtype)
        self._predictor = CodePredictor(config, weights.predictor, slots, recall)
        self._rows: dict[int, _Row] = {}
        # The lowest free slot first: a full batch then lies side by side in the cache, and is read without a copy.
        self._free = list(range(slots))
        self._hidden = like.new_zeros(slots, config.hidden_size)
        self._frame = like.new_zeros(slots, config.hidden_size)
        self._seen = torch.zeros(slots, config.vocab_size, dtype=torch.bool, device=device)
        self._penalty = torch.ones(slots, device=device)
        self._first_draws = DrawTable(slots, config.vocab_size, device)
        self._other_draws = DrawTable(slots, self._predictor.codes, device)
        self._first_noise = torch.ones(slots, config.vocab_size, device=device)
        self._other_noise = torch.ones(slots, self._predictor.draws, self._predictor.codes, device=device)
        self._mute = torch.zeros(config.vocab_size, dtype=torch.bool, device=device)
        self._mute[-CONTROL_IDS:] = True
        self._mute[config.codec_eos_token_id] = False
        self._graphs: GraphCache[tuple[int, int]] = GraphCache(self._stack, device)
        self._buckets: tuple[int, ...] = ()
        with torch.inference_mode():
            self._text_pad = weights.embeddings.text((text_pad_id,))[0]

    def capture(self, published: CodeSampling, progress: Callable[[str], None]) -> None:
        """Makes steps of 1, 2, 4, … rows quick to launch, for requests that are drawn as published.  Nobody is here."""
        assert not self._rows, "a capture disturbs those who are here"
        slots = len(self._free)
        self._buckets = tuple(sorted({min(1 << n, slots) for n in range(slots.bit_length() + 1)}))
        for rows in self._buckets:
            progress(f"capturing CUDA graphs for {rows} rows")
            self._predictor.capture(rows, published.predictor)
            idle = Span(range(rows), [0] * rows, [1] * rows)
            for window in self._windows():
                with torch.inference_mode():
                    self._graphs.capture((rows, window), *self._inputs(self._frame[:rows, None], idle, window))
        self._cache.keys.zero_()
        self._cache.values.zero_()

    def _windows(self) -> list[int]:
        """The rounder lengths of what is looked at."""
        windows = [WINDOW]
        while windows[-1] < self._cache.max_len:
            windows.append(2 * windows[-1])
        return [min(window, self._cache.max_len) for window in windows]

    @property
    def free_slots(self) -> int:
        return len(self._free)

    def join(self, prompt: Prompt, sampling: CodeSampling, prefix: KVPrefix | None = None) -> int:
        """Gives the request a slot; there must be a free one.  Raises TextTooLong where it can never fit.

        `prefix` is what `prefix` gave for another request whose prompt began just so.
        """
        assert self._free, "no slot is free"
        if len(prompt.embeddings) > self._cache.max_len:
            raise TextTooLong(f"the prompt has {len(prompt.embeddings)} positions, and {self._cache.max_len} fit")
        slot = heapq.heappop(self._free)
        generator = sampling.generator(self._device)
        row = self._rows[slot] = _Row(prompt.embeddings, prompt.trailing, prompt.text_complete, sampling, generator)
        self._penalty[slot] = sampling.repetition_penalty
        self._first_draws.put(slot, sampling.talker)
        self._other_draws.put(slot, sampling.predictor)
        if prefix is not None:
            assert prefix.length < len(row.prompt), "nothing would be left to read"
            self._cache.put_prefix(slot, prefix)
            row.length = prefix.length
        return slot

    def prefix(self, slot: int, length: int) -> KVPrefix:
        """A copy of what the first `length` positions of a request left behind; they must have been read."""
        assert length <= self._rows[slot].length, f"slot {slot} has not read {length} positions"
        return self._cache.prefix(slot, length)

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
        # Idle rows are computed too, and must not make a batch's draws dearer.
        self._first_draws.put(slot, Draw())
        self._other_draws.put(slot, Draw())
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
        with torch.inference_mode():
            batch = self._batch(sorted(slots))
            self._feed_back(batch)
            first = self._first_codes(batch)
            codes = HostCopy(torch.cat([first[:, None], self._other_codes(batch, first)], 1)).wait().numpy()
        codes = codes[[batch.order.index(slot) for slot in slots]]
        ended = tuple(bool(end) for end in codes[:, 0] == self._config.codec_eos_token_id)
        for slot, end in zip(slots, ended, strict=True):
            self._rows[slot].ended = end
            self._rows[slot].frames += not end
        return Step(codes, ended)

    def _batch(self, slots: Sequence[int]) -> "_Batch":
        """Those slots, or where a captured number of rows has them all the lowest so many."""
        order: Sequence[int] = slots
        if bucket := next((rows for rows in self._buckets if rows > slots[-1]), None):
            order = range(bucket)
        index = torch.tensor(order, device=self._device)
        asked = index if order is slots else torch.tensor(slots, device=self._device)
        side_by_side = order[-1] - order[0] == len(order) - 1
        return _Batch(
            slots=slots,
            order=order,
            index=slice(order[0], order[-1] + 1) if side_by_side else index,
            asked=asked,
            rows=slice(None) if order is slots else asked,
        )

    def _feed_back(self, batch: "_Batch") -> None:
        """The last frame of each row, and the next of its text, go in; its next hidden state comes out."""
        fed = [slot for slot in batch.slots if self._rows[slot].frames]
        if not fed:
            return
        if len(fed) < len(batch.slots):
            batch = self._batch(fed)
        text = [self._next_text(slot) if slot in fed else self._text_pad for slot in batch.order]
        inputs = (self._frame[batch.index] + torch.stack(text))[:, None]
        starts = [self._rows[slot].length if slot in fed else 0 for slot in batch.order]
        span = Span(batch.order, starts, [int(slot in fed) for slot in batch.order])
        hidden = self._fed(batch, inputs, span)
        self._hidden[batch.asked] = hidden[batch.rows, 0]
        for slot in fed:
            self._rows[slot].length += 1

    def _next_text(self, slot: int) -> torch.Tensor:
        row = self._rows[slot]
        return row.trailing[row.frames - 1] if row.frames <= len(row.trailing) else self._text_pad

    def _fed(self, batch: "_Batch", inputs: torch.Tensor, span: Span) -> torch.Tensor:
        if batch.order is batch.slots:
            return self._weights.stack(inputs, self._cache, self._cache.places(span))
        window = next(window for window in self._windows() if window >= span.window)
        (hidden,) = self._graphs((len(batch.order), window), *self._inputs(inputs, span, window))
        return hidden

    def _inputs(self, inputs: torch.Tensor, span: Span, window: int) -> tuple[torch.Tensor, ...]:
        places = self._cache.places(span, window)
        assert places.mask is not None, "a given window has a mask"
        return inputs, places.slots, places.positions, places.mask, *places.rope

    def _stack(self, key: tuple[int, int], *tensors: torch.Tensor) -> tuple[torch.Tensor]:
        """One position for each of the lowest slots: what is captured."""
        rows, window = key
        inputs, slots, positions, mask, cosine, sine = tensors
        places = Places(slots, positions, mask, (cosine, sine), slice(0, rows), None, window)
        return (self._weights.stack(inputs, self._cache, places),)

    def _first_codes(self, batch: "_Batch") -> torch.Tensor:
        """(n,), the end among them."""
        scores = self._weights.head(self._hidden[batch.index]).float()
        scores = penalised(scores, self._seen[batch.index], self._penalty[batch.index])
        scores = scores.masked_fill(self._mute, -torch.inf)
        early = [slot in self._rows and self._rows[slot].frames < SHORTEST_FRAMES for slot in batch.order]
        if any(early):
            end = scores[:, self._config.codec_eos_token_id]
            end.masked_fill_(torch.tensor(early, device=self._device), -torch.inf)
        for slot in batch.slots:
            row = self._rows[slot]
            refresh(self._first_noise[slot], row.generator, row.sampling.talker)
        draws = self._first_draws.batch(batch.order, batch.index)
        return choose(scores, draws, self._first_noise[batch.index])

    def _other_codes(self, batch: "_Batch", first: torch.Tensor) -> torch.Tensor:
        """(n, 15); remembers the whole frame, to be fed back."""
        for slot in batch.slots:
            row = self._rows[slot]
            refresh(self._other_noise[slot], row.generator, row.sampling.predictor)
        embedded = F.embedding(first, self._weights.embeddings.codec_table)
        codes, embeddings = self._predictor.complete(
            self._hidden[batch.index],
            embedded,
            self._other_draws.batch(batch.order, batch.index),
            self._other_noise[batch.index],
        )
        frame = torch.cat([embedded[:, None], embeddings], 1).sum(1)
        self._frame[batch.asked] = frame[batch.rows]
        self._seen[batch.asked, first[batch.rows]] = True
        return codes

    def _assert_all(self, slots: Sequence[int], state: State) -> None:
        assert slots, "no rows"
        assert len(set(slots)) == len(slots), f"a slot twice: {slots}"
        states = {slot: self.state(slot) for slot in slots}
        assert set(states.values()) == {state}, f"not all are to {state}: {states}"
