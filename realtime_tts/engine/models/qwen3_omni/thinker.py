"""Thinker in torch: the answers of many conversations, a token per step, over a KV cache of slots.

A slot keeps the keys and values of its last conversation, so that the next turn reads only what is new.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from realtime_tts.engine.api import Rows, TextEnd, TextSampling
from realtime_tts.engine.models.qwen3.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3.layers import SlotCache, Span, Stack, load_stack
from realtime_tts.engine.models.qwen3.linear import PackedLinear
from realtime_tts.engine.models.qwen3.sampling import (
    MIN_TEMPERATURE,
    MIN_TOP_P,
    CodeSampling,
    SamplingParams,
    SamplingTable,
    apply_repetition_penalty,
    fill_noise,
    sample,
)
from realtime_tts.engine.models.qwen3.slot_stack import SlotStack
from realtime_tts.engine.models.qwen3_omni.config import OmniConfig
from realtime_tts.engine.models.qwen3_omni.context import rows_of_tensor
from realtime_tts.engine.models.qwen3_omni.media import Item, MediaEncoder, content_keys, items_of, stacked_deepstack
from realtime_tts.engine.models.qwen3_omni.positions import Piece, positions_of
from realtime_tts.engine.models.qwen3_omni.vision_tower import Encoded
from realtime_tts.engine.thinking.thinker import ThinkerInfo, ThinkerLoad, ThinkerPrompt, Written
from realtime_tts.errors import InvalidConfig, RealtimeTTSError, TextTooLong

PREFILL_CHUNK = 2048
"""Positions of a prompt that are read in one pass, which bounds the memory."""
GREEDY = SamplingParams(0)


@dataclass(frozen=True, slots=True)
class ThinkerWeights:
    table: torch.Tensor
    stack: Stack
    head: Callable[[torch.Tensor], torch.Tensor]
    """Hidden states to scores."""


def load_thinker_weights(checkpoint: Checkpoint, config: OmniConfig, table: torch.Tensor) -> ThinkerWeights:
    """The text model without its embedding table, which has been read.  Raises ModelNotUsable."""
    stack = config.thinker_config.stack
    return ThinkerWeights(
        table=table,
        stack=load_stack(checkpoint, "thinker.model.", stack),
        head=PackedLinear(checkpoint.read("thinker.lm_head.weight", (stack.vocab_size, stack.hidden_size))),
    )


@dataclass(slots=True)
class _Kept:
    """What a slot has of its current or last conversation."""

    keys: list[object] = field(default_factory=list)
    """The content of each cached position."""
    rows: list[torch.Tensor] = field(default_factory=list)
    """The hidden states (hidden,) at the pads among them, in order."""


@dataclass(slots=True)
class _Row:
    """One request.  `length` of its positions are in the cache."""

    request_id: str
    prompt: ThinkerPrompt
    items: tuple[Item, ...]
    keys: list[object]
    positions: torch.Tensor | None
    """(3, t) of the prompt; None if they are those of the cache."""
    rope_offset: int
    sampling: TextSampling
    params: SamplingParams
    generator: torch.Generator
    slot: int | None = None
    length: int = 0
    ids: list[int] = field(default_factory=list)

    @property
    def unread(self) -> int:
        """Positions of the prompt that are not read."""
        return max(0, len(self.prompt.ids) - self.length)

    @property
    def used_slot(self) -> int:
        assert self.slot is not None, f"{self.request_id} has no slot"
        return self.slot

    def rows_before(self, position: int) -> int:
        """The number of pads before a position."""
        return sum(max(0, min(item.end, position) - item.start) for item in self.items)


class NativeThinker:
    """The Thinker of Qwen3-Omni in this process.  Owned by one thread."""

    def __init__(
        self,
        config: OmniConfig,
        weights: ThinkerWeights,
        encoder: MediaEncoder,
        *,
        slots: int,
        max_len: int,
        input_modalities: frozenset[str],
        prefill_chunk: int = PREFILL_CHUNK,
    ) -> None:
        stack = config.thinker_config.stack
        if slots < 1 or prefill_chunk < 1 or not 2 <= max_len <= stack.max_position_embeddings:
            raise ValueError(f"invalid sizes: {slots} slots of {max_len} positions, {prefill_chunk} per prefill")
        self._config = config
        self._weights = weights
        self._encoder = encoder
        self._prefill_chunk = prefill_chunk
        self._device = device = weights.table.device
        self._cache = SlotCache(stack, slots, max_len, device, weights.table.dtype)
        self._steps = SlotStack(weights.stack, self._cache, slots)
        self._accept_layer = None if config.speech is None else config.speech.talker.accept_hidden_layer
        self._waiting: OrderedDict[str, _Row] = OrderedDict()
        """In the order of joining: without a slot, or with a prompt that is not read."""
        self._running: OrderedDict[str, _Row] = OrderedDict()
        self._kept = [_Kept() for _ in range(slots)]
        self._idle: OrderedDict[int, None] = OrderedDict.fromkeys(range(slots))
        """Slots without a request, the least recently used first."""
        self._params = SamplingTable(slots, stack.vocab_size, device, GREEDY)
        self._penalty = torch.ones(slots, device=device)
        self._seen = torch.zeros(slots, stack.vocab_size, dtype=torch.bool, device=device)
        self._info = ThinkerInfo(
            hidden=stack.hidden_size,
            max_positions=max_len,
            end_ids=frozenset({config.im_end_token_id}),
            input_modalities=input_modalities,
        )

    def capture(self, progress: Callable[[str], None]) -> None:
        """Captures steps of 1, 2, 4, … rows.  No request may have joined."""
        assert not {*self._waiting, *self._running}, "a capture overwrites the state of running requests"
        for rows in self._steps.bucket_sizes:
            progress(f"capturing CUDA graphs for {rows} rows of the Thinker")
            self._steps.capture(rows, self._weights.table[:1].expand(rows, -1)[:, None].contiguous())
        self._steps.end_capture()

    @property
    def info(self) -> ThinkerInfo:
        return self._info

    def join(self, request_id: str, prompt: ThinkerPrompt, sampling: TextSampling) -> None:
        """Raises TextTooLong, and InvalidConfig for invalid sampling parameters."""
        assert request_id not in {*self._waiting, *self._running}, f"{request_id} has joined already"
        assert prompt.ids, "a prompt has at least the start of the answer"
        if len(prompt.ids) >= self._cache.max_len:
            raise TextTooLong(f"the conversation has {len(prompt.ids)} tokens; fewer than {self._cache.max_len} fit")
        items = items_of(prompt, self._config.thinker_config)
        positions = self._positions(prompt, items)
        self._waiting[request_id] = _Row(
            request_id,
            prompt,
            items,
            content_keys(prompt.ids, items),
            positions,
            0 if positions is None else int(positions.max()) + 1 - len(prompt.ids),
            sampling,
            _params(sampling),
            CodeSampling(seed=sampling.seed).generator(self._device),
        )

    def step(self, max_prompt_tokens: int | None = None) -> Sequence[Written]:
        """Reads prompts, and writes one more token for each request whose prompt is read."""
        with torch.inference_mode():
            rows = sorted(self._running.values(), key=lambda row: row.used_slot)
            hidden = self._decode(rows) if rows else []
            read, failed = self._read(max_prompt_tokens)
            rows += [row for row, _last in read]
            if not rows:
                return failed
            tokens = self._sample(rows, torch.stack([*hidden, *(last for _row, last in read)]))
        return [*failed, *(self._written(row, token) for row, token in zip(rows, tokens, strict=True))]

    def leave(self, request_id: str) -> None:
        row = self._waiting.pop(request_id, None) or self._running.pop(request_id, None)
        if row is not None and row.slot is not None:
            self._free(row, row.slot)

    def load(self) -> ThinkerLoad:
        return ThinkerLoad(
            running=len(self._running),
            waiting=len(self._waiting),
            unread_prompt_tokens=sum(row.unread for row in self._waiting.values()),
            free_positions=len(self._idle) * self._cache.max_len,
            positions=len(self._kept) * self._cache.max_len,
        )

    def close(self) -> None:
        """Forgets all requests."""
        for request_id in (*self._waiting, *self._running):
            self.leave(request_id)

    # -- Slots ---------------------------------------------------------------------------------------------------------

    def _assign(self, row: _Row) -> bool:
        """Gives a request a slot that keeps as much of its prompt as possible.  Returns whether one was idle."""
        if not self._idle:
            return False
        shared = [_common(kept.keys, row.keys) for kept in self._kept]
        source = max(range(len(shared)), key=shared.__getitem__)
        # A slot whose whole content continues is taken over; of another, its conversation may continue later.
        takes_over = source in self._idle and (shared[source] == len(self._kept[source].keys) or len(self._idle) == 1)
        target = source if takes_over else next(slot for slot in self._idle if slot != source or len(self._idle) == 1)
        # One position must be left to compute.
        length = min(shared[source], len(row.prompt.ids) - 1)
        rows = self._kept[source].rows[: row.rows_before(length)]
        used = len(self._kept[target].keys)
        if target != source and length:
            self._cache.restore_prefix(target, self._cache.prefix(source, length))
        self._cache.clear(target, used, start=length)
        self._kept[target] = _Kept(row.keys[:length], rows)
        del self._idle[target]
        row.slot, row.length = target, length
        self._params.set(target, row.params)
        self._penalty[target] = row.sampling.repetition_penalty
        self._seen[target] = False
        if row.sampling.repetition_penalty != 1:
            self._seen[target, list(row.prompt.ids)] = True
        return True

    def _free(self, row: _Row, slot: int) -> None:
        """Keeps what the slot has in the cache."""
        self._params.set(slot, GREEDY)  # idle slots are computed too, and must not add sampling steps
        self._penalty[slot] = 1
        self._idle[slot] = None
        row.slot = None

    # -- Prompts -------------------------------------------------------------------------------------------------------

    def _read(self, max_prompt_tokens: int | None) -> tuple[list[tuple[_Row, torch.Tensor]], list[Written]]:
        """Reads the next prompts.  Returns the requests whose prompts are read, with their last hidden states."""
        left = float("inf") if max_prompt_tokens is None else max_prompt_tokens
        read: list[tuple[_Row, torch.Tensor]] = []
        failed: list[Written] = []
        for row in list(self._waiting.values()):
            if left < 1 or (row.slot is None and not self._assign(row)):
                break
            try:
                while row.unread and left >= 1:
                    count = int(min(row.unread, self._prefill_chunk, left))
                    hidden = self._read_chunk(row, count)
                    left -= count
            except RealtimeTTSError as error:
                self.leave(row.request_id)
                failed.append(Written(row.request_id, (), TextEnd.ERROR, error=error))
                continue
            if not row.unread:
                read.append((row, hidden))
        return read, failed

    def _read_chunk(self, row: _Row, count: int) -> torch.Tensor:
        """The last hidden state (hidden,) of the next `count` positions of a prompt."""
        start, end = row.length, row.length + count
        ids = torch.tensor(row.prompt.ids[start:end], device=self._device)
        hidden = F.embedding(ids, self._weights.table)
        parts: list[tuple[int, Encoded]] = []
        for item in row.items:
            if item.start < end and item.end > start:
                first, last = max(item.start, start), min(item.end, end)
                encoded = _slice(self._encode(item), first - item.start, last - item.start)
                hidden[first - start : last - start] = encoded.embeddings
                parts.append((first - start, encoded))
        added = stacked_deepstack([(first, encoded.deepstack) for first, encoded in parts], count, hidden)
        rope = None if row.positions is None else row.positions[:, None, start:end]
        index = self._cache.index(Span([row.used_slot], [start], [count]), rope=rope)
        normed, observed = self._weights.stack.observe(
            hidden[None], self._cache, index, layer=self._accept_layer, added=added
        )
        kept = self._kept[row.used_slot]
        if observed is not None:
            for first, encoded in parts:
                # A copy, so that the other positions are not kept in memory.
                kept.rows += observed[0, first : first + len(encoded.embeddings)].clone().unbind()
        kept.keys += row.keys[start:end]
        row.length = end
        return normed[0, -1]

    def _encode(self, item: Item) -> Encoded:
        encoded = self._encoder(item.part)
        if len(encoded.embeddings) != item.end - item.start:
            raise InvalidConfig(f"the prompt has {item.end - item.start} pads for {len(encoded.embeddings)} embeddings")
        return encoded

    def _positions(self, prompt: ThinkerPrompt, items: Sequence[Item]) -> torch.Tensor | None:
        pieces: list[Piece] = []
        done = 0
        for item in items:
            pieces += [
                Piece(prompt.ids[done : item.start]),
                Piece(prompt.ids[item.start : item.end], self._encoder.grid(item.part)),
            ]
            done = item.end
        found = positions_of([*pieces, Piece(prompt.ids[done:])])
        return None if found is None else torch.from_numpy(found.astype(np.int64)).to(self._device)

    # -- Tokens --------------------------------------------------------------------------------------------------------

    def _decode(self, rows: Sequence[_Row]) -> list[torch.Tensor]:
        """Feeds each request its last token, in the order of slots.  Returns the hidden states (hidden,)."""
        by_slot = {row.used_slot: row for row in rows}
        batch = self._steps.batch(list(by_slot))
        computed = [by_slot.get(slot) for slot in batch.order]
        tokens = torch.tensor([0 if row is None else row.ids[-1] for row in computed], device=self._device)
        hidden = self._steps.step(
            batch,
            F.embedding(tokens, self._weights.table),
            past=[0 if row is None else row.length for row in computed],
            offsets=[0 if row is None else row.rope_offset for row in computed],
        )[batch.rows]
        for row in rows:
            self._kept[row.used_slot].keys.append(row.ids[-1])
            row.length += 1
        return list(hidden)

    def _sample(self, rows: Sequence[_Row], hidden: torch.Tensor) -> list[int]:
        """The next token of each request, from its last hidden state: hidden (n, hidden)."""
        slots = [row.used_slot for row in rows]
        index = torch.tensor(slots, device=self._device)
        scores = self._weights.head(hidden).float()
        if any(row.sampling.repetition_penalty != 1 for row in rows):
            scores = apply_repetition_penalty(scores, self._seen[index], self._penalty[index])
        if all(row.params.greedy for row in rows):
            tokens = scores.argmax(-1)
        else:
            noise = torch.empty_like(scores)
            for row, own in zip(rows, noise, strict=True):
                fill_noise(own, row.generator, row.params)
            tokens = sample(scores, self._params.batch(slots, index), noise)
        self._seen[index, tokens] = True
        return [int(token) for token in tokens.tolist()]

    def _written(self, row: _Row, token: int) -> Written:
        """The result of a step for one request, which leaves with its last token."""
        first = not row.ids
        rows = None
        if first:
            del self._waiting[row.request_id]
            self._running[row.request_id] = row
            if row.prompt.wants_rows:
                rows = self._rows(row)
        row.ids.append(token)
        if token in self._info.end_ids:
            self.leave(row.request_id)
            return Written(row.request_id, (), TextEnd.STOP, rows)
        end = None
        if len(row.ids) == row.sampling.max_tokens or row.length == self._cache.max_len:
            end = TextEnd.LENGTH
            self.leave(row.request_id)
        return Written(row.request_id, (token,), end, rows)

    def _rows(self, row: _Row) -> Rows:
        """The hidden states at the pads of its prompt."""
        kept = self._kept[row.used_slot].rows
        assert len(kept) == row.rows_before(len(row.prompt.ids)), "a pad has no hidden state"
        return rows_of_tensor(torch.stack(kept) if kept else self._weights.table[:0])


def _params(sampling: TextSampling) -> SamplingParams:
    """Raises InvalidConfig."""
    greedy = sampling.temperature < MIN_TEMPERATURE
    try:
        return SamplingParams(
            0 if greedy else sampling.temperature, max(0, sampling.top_k), max(sampling.top_p, MIN_TOP_P)
        )
    except ValueError as error:
        raise InvalidConfig(str(error)) from None


def _common(first: Sequence[object], second: Sequence[object]) -> int:
    """The length of the longest common prefix."""
    pairs = zip(first, second, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))


def _slice(encoded: Encoded, start: int, end: int) -> Encoded:
    return Encoded(encoded.embeddings[start:end], encoded.deepstack[:, start:end])
