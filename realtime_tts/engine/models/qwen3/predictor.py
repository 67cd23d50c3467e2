"""Code predictor: codes 1 to 15 of a frame, drawn one by one by a small stack that starts empty for each frame."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from realtime_tts.engine.models.qwen3.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3.config import TalkerStackConfig
from realtime_tts.engine.models.qwen3.cuda_graph import GraphCache
from realtime_tts.engine.models.qwen3.layers import CacheIndex, SlotCache, Span, Stack, load_stack
from realtime_tts.engine.models.qwen3.linear import PackedLinear
from realtime_tts.engine.models.qwen3.sampling import SamplingBatch, SamplingParams, SamplingTable, sample

PREFIX = "talker.code_predictor."
MEASURED_FRAMES = 4
"""Frames by which the modes are compared; the fastest of each counts, since the first is a warm-up."""


class KVMode(StrEnum):
    """How the predictor attends to a frame's earlier codes; both modes draw the same codes.

    CACHE keeps their keys and values.  RECOMPUTE computes them again: fewer launches, and more computation.
    `fastest_kv_mode` measures which of them is faster on a device.
    """

    CACHE = "cache"
    RECOMPUTE = "recompute"


@dataclass(frozen=True, slots=True)
class PredictorWeights:
    """Embeddings and heads in the order of their codes: the first is for code 1 (code 0 is the Talker's)."""

    stack: Stack
    embeddings: tuple[torch.Tensor, ...]
    heads: tuple[PackedLinear, ...]
    projection: tuple[torch.Tensor, torch.Tensor] | None
    """From the Talker's width to this stack's, weight and bias; None if they are equal."""


def load_predictor(checkpoint: Checkpoint, config: TalkerStackConfig, *, compiled: bool = False) -> PredictorWeights:
    """Raises ModelNotUsable."""
    own = config.code_predictor_config
    groups = range(own.num_code_groups - 1)
    embedding, head = (own.vocab_size, config.hidden_size), (own.vocab_size, own.hidden_size)
    projection = None
    if own.hidden_size != config.hidden_size:
        name = f"{PREFIX}small_to_mtp_projection"
        weight = checkpoint.read(f"{name}.weight", (own.hidden_size, config.hidden_size))
        projection = weight, checkpoint.read(f"{name}.bias", (own.hidden_size,))
    return PredictorWeights(
        # Read fifteen times per frame.
        stack=load_stack(checkpoint, f"{PREFIX}model.", own, keep_transposed=True, compiled=compiled),
        embeddings=tuple(checkpoint.read(f"{PREFIX}model.codec_embedding.{g}.weight", embedding) for g in groups),
        heads=tuple(PackedLinear(checkpoint.read(f"{PREFIX}lm_head.{g}.weight", head)) for g in groups),
        projection=projection,
    )


class Bucket(NamedTuple):
    """What a captured frame depends on besides its values: its shapes, and the optional sampling steps."""

    rows: int
    max_kept: int
    has_top_p: bool
    has_greedy: bool


class CodePredictor:
    """Completes frames, up to `rows` of them at once.

    On a GPU a whole frame, with its fifteen passes and draws, is one launch for the buckets that `capture` captured.
    """

    def __init__(
        self, config: TalkerStackConfig, weights: PredictorWeights, rows: int, kv_mode: KVMode = KVMode.CACHE
    ) -> None:
        own, like = config.code_predictor_config, weights.embeddings[0]
        self._weights = weights
        self._kv_mode = kv_mode
        self._talker_width = config.hidden_size
        self._like = like
        self._cache = SlotCache(own, rows, own.num_code_groups, like.device, like.dtype)
        self._indexes: dict[tuple[int, int, int], CacheIndex] = {}
        self._graphs: GraphCache[Bucket] = GraphCache(self._complete, like.device)
        self.draws = own.num_code_groups - 1
        self.codes = own.vocab_size

    def capture(self, rows: int, params: SamplingParams) -> None:
        """Captures frames of this number of rows, all drawn by `params`."""
        table = SamplingTable(rows, self.codes, self._like.device, params)
        hidden = self._like.new_zeros(rows, self._talker_width)
        noise = torch.ones(rows, self.draws, self.codes, device=self._like.device)
        with torch.inference_mode():
            bucket, inputs = _bucket(hidden, hidden, table.batch(range(rows), slice(0, rows)), noise)
            self._graphs.capture(bucket, *inputs)

    def complete(
        self, hidden: torch.Tensor, first: torch.Tensor, params: SamplingBatch, noise: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Codes 1 to 15 of each row (n, 15) and their embeddings (n, 15, talker hidden), valid until the next call.

        `hidden` is the Talker's last hidden state and `first` the embedding of its code, both (n, talker hidden);
        `noise` is (n, 15, codes).
        """
        bucket, inputs = _bucket(hidden, first, params, noise)
        codes, embeddings = self._graphs(bucket, *inputs)
        return codes, embeddings

    def _complete(self, bucket: Bucket, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden, first, noise, temperature, last_kept, *optional = tensors
        params = SamplingBatch(
            temperature,
            last_kept,
            bucket.max_kept,
            tail=optional[0] if bucket.has_top_p else None,
            greedy=optional[-1] if bucket.has_greedy else None,
        )
        weights = self._weights
        inputs = [self._narrow(hidden), self._narrow(first)]
        codes: list[torch.Tensor] = []
        embeddings: list[torch.Tensor] = []
        for index, (head, table) in enumerate(zip(weights.heads, weights.embeddings, strict=True)):
            scores = head(self._last_hidden(inputs)).float()
            codes.append(sample(scores, params, noise[:, index]))
            embeddings.append(F.embedding(codes[-1], table))
            inputs.append(self._narrow(embeddings[-1]))
        return torch.stack(codes, 1), torch.stack(embeddings, 1)

    def _last_hidden(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """The stack's hidden state at the newest position."""
        rows = len(inputs[0])
        # The first pass reads two positions: the Talker's state, and code 0.
        past = 0 if self._kv_mode is KVMode.RECOMPUTE or len(inputs) == 2 else len(inputs) - 1
        new = torch.stack(list(inputs[past:]), 1)
        return self._weights.stack(new, self._cache, self._index(rows, past, len(inputs)))[:, -1]

    def _index(self, rows: int, past: int, end: int) -> CacheIndex:
        """The same in every frame, so it is kept: a pass then copies nothing from the host."""
        key = (rows, past, end)
        if key not in self._indexes:
            self._indexes[key] = self._cache.index(Span(range(rows), [past] * rows, [end - past] * rows))
        return self._indexes[key]

    def _narrow(self, x: torch.Tensor) -> torch.Tensor:
        return x if self._weights.projection is None else F.linear(x, *self._weights.projection)


def _bucket(
    hidden: torch.Tensor, first: torch.Tensor, params: SamplingBatch, noise: torch.Tensor
) -> tuple[Bucket, list[torch.Tensor]]:
    bucket = Bucket(len(hidden), params.max_kept, params.tail is not None, params.greedy is not None)
    inputs = [hidden, first, noise, params.temperature, params.last_kept, params.tail, params.greedy]
    return bucket, [tensor for tensor in inputs if tensor is not None]


def fastest_kv_mode(
    config: TalkerStackConfig, weights: PredictorWeights, rows: int, now_s: Callable[[], float]
) -> tuple[KVMode, dict[KVMode, float]]:
    """The mode that completes a frame of this number of rows sooner here, and the seconds of each."""
    predictors = {mode: CodePredictor(config, weights, rows, mode) for mode in KVMode}
    like = weights.embeddings[0]
    table = SamplingTable(rows, config.code_predictor_config.vocab_size, like.device)
    hidden = like.new_zeros(rows, config.hidden_size)
    times_s = dict.fromkeys(KVMode, math.inf)
    for predictor in predictors.values():
        predictor.capture(rows, SamplingParams())
    noise = torch.ones(rows, config.num_code_groups - 1, config.code_predictor_config.vocab_size, device=like.device)
    with torch.inference_mode():
        for _ in range(MEASURED_FRAMES):
            for mode, predictor in predictors.items():
                started_s = now_s()
                codes, _embeddings = predictor.complete(hidden, hidden, table.batch(range(rows), slice(0, rows)), noise)
                codes.cpu()  # waits for the device
                times_s[mode] = min(times_s[mode], now_s() - started_s)
    return min(times_s, key=times_s.__getitem__), times_s
