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
from realtime_tts.engine.models.qwen3.cuda_graph import HostCopy
from realtime_tts.engine.models.qwen3.embeddings import Embeddings, Projection, Prompt
from realtime_tts.engine.models.qwen3.layers import KVPrefix, SlotCache, Span, Stack, load_stack
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
from realtime_tts.engine.models.qwen3.slot_stack import SlotBatch, SlotStack
from realtime_tts.errors import TextTooLong


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


class Talker:
    """Slots for requests.  Owned by one thread; a row's codes do not depend on the other rows of the batch.

    The end is not drawn before `min_frames` frames (reference: min_new_tokens).

    A step first feeds each row's last frame back, together with the next token of its text, then draws the next frame.
    So a frame does not need the text after it.

    On a GPU a step is two launches, the stack and the code predictor, with the draw of the first codes between them,
    for the numbers of rows that `capture` captured (SlotStack).
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
        self._steps = SlotStack(weights.stack, self._cache, slots)
        with torch.inference_mode():
            self._text_pad = weights.embeddings.text((text_pad_id,))[0]

    def capture(self, published: CodeSampling, progress: Callable[[str], None]) -> None:
        """Captures steps of 1, 2, 4, … rows with the published sampling parameters.  All slots must be free."""
        assert not self._rows, "a capture overwrites the state of running requests"
        for rows in self._steps.bucket_sizes:
            progress(f"capturing CUDA graphs for {rows} rows")
            self._predictor.capture(rows, published.predictor)
            self._steps.capture(rows, self._frame[:rows, None])
        self._steps.end_capture()

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

    def length(self, slot: int) -> int:
        """The number of its positions that are in the cache."""
        return self._rows[slot].length

    @property
    def codes_per_frame(self) -> int:
        return self._config.num_code_groups

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
            batch = self._steps.batch(sorted(slots))
            self._feed_back(batch)
            first = self._first_codes(batch)
            codes = HostCopy(torch.cat([first[:, None], self._other_codes(batch, first)], 1)).wait().numpy()
        codes = codes[[batch.order.index(slot) for slot in slots]]
        ended = tuple(bool(end) for end in codes[:, 0] == self._config.codec_eos_token_id)
        for slot, end in zip(slots, ended, strict=True):
            self._rows[slot].ended = end
            self._rows[slot].frames += not end
        return StepResult(codes, ended)

    def _feed_back(self, batch: SlotBatch) -> None:
        """Runs the stack on each row's last frame and the next token of its text, for its next hidden state."""
        fed = [slot for slot in batch.slots if self._rows[slot].frames]
        if not fed:
            return
        if len(fed) < len(batch.slots):
            batch = self._steps.batch(fed)
        rows = [self._rows[slot] if slot in fed else None for slot in batch.order]
        text = [self._text_pad if row is None else self._next_text(row) for row in rows]
        inputs = self._frame[batch.order_index] + torch.stack(text)
        past = [0 if row is None else row.length for row in rows]
        hidden = self._steps.step(batch, inputs, past, [0 if row is None else row.rope_offset for row in rows])
        self._hidden[batch.slots_index] = hidden[batch.rows]
        for slot in fed:
            self._rows[slot].length += 1

    def _next_text(self, row: _Row) -> torch.Tensor:
        return row.trailing[row.frames - 1] if row.frames <= len(row.trailing) else self._text_pad

    def _first_codes(self, batch: SlotBatch) -> torch.Tensor:
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

    def _other_codes(self, batch: SlotBatch, first: torch.Tensor) -> torch.Tensor:
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
