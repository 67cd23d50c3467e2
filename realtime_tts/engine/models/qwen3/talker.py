"""Talker: the codes of many requests, frame by frame; each has a slot, and can join, wait or leave at any step."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from realtime_tts.engine.models.qwen3.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3.config import CONTROL_IDS, TalkerStackConfig
from realtime_tts.engine.models.qwen3.cuda_graph import GraphCache, HostCopy
from realtime_tts.engine.models.qwen3.embeddings import Embeddings, Projection, Prompt
from realtime_tts.engine.models.qwen3.layers import CacheIndex, KVPrefix, SlotCache, Span, Stack, load_stack
from realtime_tts.engine.models.qwen3.linear import PackedLinear
from realtime_tts.engine.models.qwen3.predictor import CodePredictor, KVMode, PredictorWeights, load_predictor
from realtime_tts.engine.models.qwen3.sampling import (
    CodeSampling,
    SamplingParams,
    SamplingTable,
    apply_repetition_penalty,
    fill_noise,
    sample,
)
from realtime_tts.errors import TextTooLong

MIN_WINDOW = 256
"""The shortest attention window that is captured, in positions; the others are its doubles."""


@dataclass(frozen=True, slots=True)
class TalkerWeights:
    stack: Stack
    head: PackedLinear
    embeddings: Embeddings
    predictor: PredictorWeights


def load_weights(
    checkpoint: Checkpoint,
    config: TalkerStackConfig,
    text_table: torch.Tensor,
    text_projection: Projection,
    *,
    compiled: bool = False,
) -> TalkerWeights:
    """Reads the tensors under `talker.`, without those of the text, which have been read.  Raises ModelNotUsable."""
    predictor = load_predictor(checkpoint, config, compiled=compiled)
    codecs = (config.vocab_size, config.hidden_size)
    return TalkerWeights(
        stack=load_stack(checkpoint, "talker.model.", config, compiled=compiled),
        head=PackedLinear(checkpoint.read("talker.codec_head.weight", codecs)),
        embeddings=Embeddings(
            text_table,
            text_projection,
            codec_table=checkpoint.read("talker.model.codec_embedding.weight", codecs),
            group_tables=predictor.embeddings,
        ),
        predictor=predictor,
    )


class SlotState(StrEnum):
    """What the request in a slot needs next."""

    PREFILL = "prefill"
    READY = "ready"
    STARVED = "starved"
    """Its next step needs text that has not arrived."""
    FULL = "full"
    """Its slot has no position for one more frame."""
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class StepResult:
    """Codes of one step, row by row.  The codes of a row that has just ended are not a frame."""

    codes: npt.NDArray[np.int64]
    """(n, 16)"""
    ended: tuple[bool, ...]


@dataclass(slots=True)
class _Row:
    """One request: `length` of its positions are in the cache, and it has generated `frames`."""

    prompt: torch.Tensor
    prompt_complete: bool
    positions: torch.Tensor | None
    """(3, t) of the prompt; None if they are those of the cache."""
    trailing: list[torch.Tensor]
    """(hidden,) each"""
    text_complete: bool
    rope_offset: int
    """What is added to a cache position after the prompt for its rotary position, the same on all axes."""
    sampling: CodeSampling
    generator: torch.Generator
    length: int = 0
    frames: int = 0
    ended: bool = False


@dataclass(frozen=True, slots=True)
class _Batch:
    """The slots that a step computes, and those whose results are used."""

    slots: Sequence[int]
    """Used, from the lowest."""
    order: Sequence[int]
    """Computed: the object `slots` itself, or a captured range that contains it."""
    order_index: "slice | torch.Tensor"
    """`order` as an index of a tensor of slots."""
    slots_index: torch.Tensor
    """`slots` as an index of a tensor of slots."""
    rows: "slice | torch.Tensor"
    """`slots` as an index of the computed rows."""


class Talker:
    """Slots for requests.  Owned by one thread; a row's codes do not depend on the other rows of the batch.

    The end is not drawn before `min_frames` frames (reference: min_new_tokens).

    A step first feeds each row's last frame back, together with the next token of its text, then draws the next frame.
    So a frame does not need the text after it.

    On a GPU a step is two launches, the stack and the code predictor, with the draw of the first codes between them,
    for the numbers of rows that `capture` captured.  They always compute the lowest slots, so that nothing has to be
    gathered; the state of a slot that was not requested does not change.
    """

    def __init__(
        self,
        config: TalkerStackConfig,
        weights: TalkerWeights,
        *,
        slots: int,
        max_len: int,
        text_pad_id: int,
        min_frames: int,
        prefill_chunk: int = 512,
        kv_mode: KVMode = KVMode.CACHE,
    ) -> None:
        if slots < 1 or prefill_chunk < 1 or not 2 <= max_len <= config.max_position_embeddings:
            raise ValueError(f"invalid sizes: {slots} slots of {max_len} positions, {prefill_chunk} per prefill")
        self._config = config
        self._weights = weights
        self._min_frames = min_frames
        self._prefill_chunk = prefill_chunk
        like = weights.embeddings.codec_table
        self._device = device = like.device
        self._cache = SlotCache(config, slots, max_len, device, like.dtype)
        self._predictor = CodePredictor(config, weights.predictor, slots, kv_mode)
        self._rows: dict[int, _Row] = {}
        # The lowest free slot first: a full batch is then contiguous in the cache, and is read without a copy.
        self._free = list(range(slots))
        self._hidden = like.new_zeros(slots, config.hidden_size)
        self._frame = like.new_zeros(slots, config.hidden_size)
        self._seen = torch.zeros(slots, config.vocab_size, dtype=torch.bool, device=device)
        self._penalty = torch.ones(slots, device=device)
        self._first_params = SamplingTable(slots, config.vocab_size, device)
        self._other_params = SamplingTable(slots, self._predictor.codes, device)
        self._first_noise = torch.ones(slots, config.vocab_size, device=device)
        self._other_noise = torch.ones(slots, self._predictor.draws, self._predictor.codes, device=device)
        self._never_drawn = torch.zeros(config.vocab_size, dtype=torch.bool, device=device)
        self._never_drawn[-CONTROL_IDS:] = True
        self._never_drawn[config.codec_eos_token_id] = False
        self._graphs: GraphCache[tuple[int, int]] = GraphCache(self._captured_stack, device)
        self._buckets: tuple[int, ...] = ()
        with torch.inference_mode():
            self._text_pad = weights.embeddings.text((text_pad_id,))[0]

    def capture(self, published: CodeSampling, progress: Callable[[str], None]) -> None:
        """Captures steps of 1, 2, 4, … rows with the published sampling parameters.  All slots must be free."""
        assert not self._rows, "a capture overwrites the state of running requests"
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
        """The captured attention windows."""
        windows = [MIN_WINDOW]
        while windows[-1] < self._cache.max_len:
            windows.append(2 * windows[-1])
        return [min(window, self._cache.max_len) for window in windows]

    @property
    def free_slots(self) -> int:
        return len(self._free)

    def add_request(self, prompt: Prompt, sampling: CodeSampling, prefix: KVPrefix | None = None) -> int:
        """Assigns a slot, of which one must be free.  Raises TextTooLong if the prompt does not fit into any.

        `prefix` is that of another request whose prompt starts with the same positions (`copy_prefix`).
        """
        assert self._free, "no slot is free"
        self._check_length(len(prompt.embeddings))
        slot = heapq.heappop(self._free)
        offset = 0 if prompt.positions is None else int(prompt.positions.max()) + 1 - len(prompt.embeddings)
        row = self._rows[slot] = _Row(
            prompt.embeddings,
            prompt.complete,
            prompt.positions,
            list(prompt.trailing),
            prompt.text_complete,
            offset,
            sampling,
            sampling.generator(self._device),
        )
        self._penalty[slot] = sampling.repetition_penalty
        self._first_params.set(slot, sampling.talker)
        self._other_params.set(slot, sampling.predictor)
        if prefix is not None:
            assert prefix.length < len(row.prompt) or not row.prompt_complete, "nothing would be left to prefill"
            self._cache.restore_prefix(slot, prefix)
            row.length = prefix.length
        return slot

    def copy_prefix(self, slot: int, length: int) -> KVPrefix:
        """A copy of the keys and values of a request's first `length` positions, which must be prefilled."""
        assert length <= self._rows[slot].length, f"slot {slot} has fewer than {length} positions"
        return self._cache.prefix(slot, length)

    def append_prompt(self, slot: int, embeddings: torch.Tensor, *, complete: bool) -> None:
        """Adds positions (t, hidden) to a prompt that is not complete.  Raises TextTooLong if they do not fit."""
        row = self._rows[slot]
        assert not row.prompt_complete, f"the prompt of slot {slot} is complete already"
        self._check_length(len(row.prompt) + len(embeddings))
        if row.positions is not None:
            first = row.rope_offset + len(row.prompt)
            more = torch.arange(first, first + len(embeddings), device=self._device)
            row.positions = torch.cat([row.positions, more.expand(3, -1)], 1)
        row.prompt = torch.cat([row.prompt, embeddings])
        row.prompt_complete = complete

    def _check_length(self, positions: int) -> None:
        if positions > self._cache.max_len:
            raise TextTooLong(f"the prompt has {positions} positions; at most {self._cache.max_len} fit")

    def append_text(self, slot: int, embeddings: torch.Tensor, *, complete: bool) -> None:
        """Adds text that is fed in with the frames (PromptBuilder.more_text)."""
        row = self._rows[slot]
        assert not row.text_complete, f"the text of slot {slot} is complete already"
        row.trailing.extend(embeddings)
        row.text_complete = complete

    def release(self, slot: int) -> None:
        """Frees a slot in any state."""
        row = self._rows.pop(slot)
        self._cache.clear(slot, row.length)
        self._seen[slot] = False
        # Free slots are computed too, and must not add sampling steps to a batch.
        self._first_params.set(slot, SamplingParams())
        self._other_params.set(slot, SamplingParams())
        heapq.heappush(self._free, slot)

    def state(self, slot: int) -> SlotState:
        row = self._rows[slot]
        if row.length < len(row.prompt):
            return SlotState.PREFILL
        if not row.prompt_complete:
            return SlotState.STARVED
        if row.ended:
            return SlotState.ENDED
        if row.frames and row.length == self._cache.max_len:
            return SlotState.FULL
        if row.frames > len(row.trailing) and not row.text_complete:
            return SlotState.STARVED
        return SlotState.READY

    def frames(self, slot: int) -> int:
        """The number of frames that the request has generated."""
        return self._rows[slot].frames

    def prefill(self, slots: Sequence[int]) -> None:
        """Processes the next chunk of each of these prompts in one batch."""
        self._assert_all(slots, SlotState.PREFILL)
        order = sorted(slots)
        rows = [self._rows[slot] for slot in order]
        chunks = [row.prompt[row.length : row.length + self._prefill_chunk] for row in rows]
        counts = [len(chunk) for chunk in chunks]
        with torch.inference_mode():
            batch = torch.nn.utils.rnn.pad_sequence(chunks, batch_first=True)
            span = Span(order, [row.length for row in rows], counts)
            index = self._cache.index(span, rope=self._prompt_positions(rows, span))
            hidden = self._weights.stack(batch, self._cache, index)
            # Only the prompt's last position is used: that of the last chunk.
            last = torch.tensor(counts, device=self._device) - 1
            self._hidden[order] = hidden[torch.arange(len(order), device=self._device), last]
        for row, count in zip(rows, counts, strict=True):
            row.length += count

    def _prompt_positions(self, rows: Sequence[_Row], span: Span) -> torch.Tensor | None:
        """The rotary positions (3, n, t) of a chunk of prompts; None if they are those of the cache."""
        if all(row.positions is None for row in rows):
            return None
        rope = torch.zeros(3, len(rows), max(span.new), dtype=torch.long, device=self._device)
        for index, (row, past, new) in enumerate(zip(rows, span.past, span.new, strict=True)):
            plain = torch.arange(past, past + new, device=self._device).expand(3, -1)
            rope[:, index, :new] = plain if row.positions is None else row.positions[:, past : past + new]
        return rope

    def step(self, slots: Sequence[int]) -> StepResult:
        """Generates one more frame for each of these requests, in their order."""
        self._assert_all(slots, SlotState.READY)
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
        return StepResult(codes, ended)

    def _batch(self, slots: Sequence[int]) -> "_Batch":
        """These slots, within the smallest captured range that contains them if there is one."""
        order: Sequence[int] = slots
        if bucket := next((rows for rows in self._buckets if rows > slots[-1]), None):
            order = range(bucket)
        index = torch.tensor(order, device=self._device)
        slots_index = index if order is slots else torch.tensor(slots, device=self._device)
        contiguous = order[-1] - order[0] == len(order) - 1
        return _Batch(
            slots=slots,
            order=order,
            order_index=slice(order[0], order[-1] + 1) if contiguous else index,
            slots_index=slots_index,
            rows=slice(None) if order is slots else slots_index,
        )

    def _feed_back(self, batch: "_Batch") -> None:
        """Runs the stack on each row's last frame and the next token of its text, for its next hidden state."""
        fed = [slot for slot in batch.slots if self._rows[slot].frames]
        if not fed:
            return
        if len(fed) < len(batch.slots):
            batch = self._batch(fed)
        text = [self._next_text(slot) if slot in fed else self._text_pad for slot in batch.order]
        inputs = (self._frame[batch.order_index] + torch.stack(text))[:, None]
        past = [self._rows[slot].length if slot in fed else 0 for slot in batch.order]
        span = Span(batch.order, past, [int(slot in fed) for slot in batch.order])
        hidden = self._run_stack(batch, inputs, span)
        self._hidden[batch.slots_index] = hidden[batch.rows, 0]
        for slot in fed:
            self._rows[slot].length += 1

    def _next_text(self, slot: int) -> torch.Tensor:
        row = self._rows[slot]
        return row.trailing[row.frames - 1] if row.frames <= len(row.trailing) else self._text_pad

    def _run_stack(self, batch: "_Batch", inputs: torch.Tensor, span: Span) -> torch.Tensor:
        if batch.order is batch.slots:
            return self._weights.stack(inputs, self._cache, self._cache.index(span, rope=self._step_positions(span)))
        window = next(window for window in self._windows() if window >= span.window)
        (hidden,) = self._graphs((len(batch.order), window), *self._inputs(inputs, span, window))
        return hidden

    def _inputs(self, inputs: torch.Tensor, span: Span, window: int) -> tuple[torch.Tensor, ...]:
        index = self._cache.index(span, window, self._step_positions(span))
        assert index.mask is not None, "a fixed window has a mask"
        return inputs, index.slots, index.positions, index.mask, *index.rope

    def _step_positions(self, span: Span) -> torch.Tensor | None:
        """The rotary positions (n, 1) of a step; None if they are those of the cache."""
        offsets = [self._rows[slot].rope_offset if slot in self._rows else 0 for slot in span.slots]
        if not any(offsets):
            return None
        # Idle rows have no position of their own.
        positions = [max(0, past + offset) for past, offset in zip(span.past, offsets, strict=True)]
        return torch.tensor(positions, device=self._device)[:, None]

    def _captured_stack(self, key: tuple[int, int], *tensors: torch.Tensor) -> tuple[torch.Tensor]:
        """One position for each of the lowest slots."""
        rows, window = key
        inputs, slots, positions, mask, cosine, sine = tensors
        index = CacheIndex(slots, positions, mask, (cosine, sine), slice(0, rows), None, window)
        return (self._weights.stack(inputs, self._cache, index),)

    def _first_codes(self, batch: "_Batch") -> torch.Tensor:
        """(n,), which may be the end."""
        scores = self._weights.head(self._hidden[batch.order_index]).float()
        scores = apply_repetition_penalty(scores, self._seen[batch.order_index], self._penalty[batch.order_index])
        scores = scores.masked_fill(self._never_drawn, -torch.inf)
        early = [slot in self._rows and self._rows[slot].frames < self._min_frames for slot in batch.order]
        if any(early):
            end = scores[:, self._config.codec_eos_token_id]
            end.masked_fill_(torch.tensor(early, device=self._device), -torch.inf)
        for slot in batch.slots:
            row = self._rows[slot]
            fill_noise(self._first_noise[slot], row.generator, row.sampling.talker)
        params = self._first_params.batch(batch.order, batch.order_index)
        return sample(scores, params, self._first_noise[batch.order_index])

    def _other_codes(self, batch: "_Batch", first: torch.Tensor) -> torch.Tensor:
        """(n, 15); keeps the whole frame, which the next step feeds back."""
        for slot in batch.slots:
            row = self._rows[slot]
            fill_noise(self._other_noise[slot], row.generator, row.sampling.predictor)
        embedded = F.embedding(first, self._weights.embeddings.codec_table)
        codes, embeddings = self._predictor.complete(
            self._hidden[batch.order_index],
            embedded,
            self._other_params.batch(batch.order, batch.order_index),
            self._other_noise[batch.order_index],
        )
        frame = torch.cat([embedded[:, None], embeddings], 1).sum(1)
        self._frame[batch.slots_index] = frame[batch.rows]
        self._seen[batch.slots_index, first[batch.rows]] = True
        return codes

    def _assert_all(self, slots: Sequence[int], state: SlotState) -> None:
        assert slots, "no rows"
        assert len(set(slots)) == len(slots), f"a slot twice: {slots}"
        states = {slot: self.state(slot) for slot in slots}
        assert set(states.values()) == {state}, f"not all are in state {state}: {states}"
