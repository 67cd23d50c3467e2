"""The other fifteen codes of a frame: a small stack that reads one code after the other, anew for each frame."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from realtime_tts.engine.models.qwen3_tts.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3_tts.config import TalkerConfig
from realtime_tts.engine.models.qwen3_tts.cuda_graph import GraphCache
from realtime_tts.engine.models.qwen3_tts.layers import Places, SlotCache, Span, Stack, load_stack
from realtime_tts.engine.models.qwen3_tts.matrix import Matrix
from realtime_tts.engine.models.qwen3_tts.sampling import Draw, DrawBatch, DrawTable, choose

PREFIX = "talker.code_predictor."
MEASURED = 4
"""Frames by which the ways to recall are compared; the best of each counts, since the first of them warms up."""


class Recall(StrEnum):
    """How a code sees those before it; the codes are the same.

    CACHE keeps their keys and values.  REPEAT computes them again: fewer writes to launch, and more to compute.
    `quickest` measures which of them a device likes.
    """

    CACHE = "cache"
    REPEAT = "repeat"


@dataclass(frozen=True, slots=True)
class PredictorWeights:
    """Embeddings and heads are in the order of their codes: the first is that of code 1 (code 0 is the Talker's)."""

    stack: Stack
    embeddings: tuple[torch.Tensor, ...]
    heads: tuple[Matrix, ...]
    projection: tuple[torch.Tensor, torch.Tensor] | None
    """From the Talker's width to this stack's, weight and bias, where they differ."""


def load_predictor(checkpoint: Checkpoint, config: TalkerConfig, *, compiled: bool = False) -> PredictorWeights:
    """Raises ModelNotUsable."""
    own = config.code_predictor_config
    groups = range(own.num_code_groups - 1)
    embedding, head = (own.vocab_size, config.hidden_size), (own.vocab_size, own.hidden_size)
    projection = None
    if own.hidden_size != config.hidden_size:
        name = f"{PREFIX}small_to_mtp_projection"
        weight = checkpoint.take(f"{name}.weight", (own.hidden_size, config.hidden_size))
        projection = weight, checkpoint.take(f"{name}.bias", (own.hidden_size,))
    return PredictorWeights(
        # Fifteen times a frame.
        stack=load_stack(checkpoint, f"{PREFIX}model.", own, often=True, compiled=compiled),
        embeddings=tuple(checkpoint.take(f"{PREFIX}model.codec_embedding.{g}.weight", embedding) for g in groups),
        heads=tuple(Matrix(checkpoint.take(f"{PREFIX}lm_head.{g}.weight", head)) for g in groups),
        projection=projection,
    )


class Bucket(NamedTuple):
    """What a captured frame depends on beside its numbers: its shapes, and which kinds of draw there are."""

    rows: int
    most: int
    has_tail: bool
    has_greedy: bool


class CodePredictor:
    """Completes frames, up to `rows` of them at once.

    On a GPU a whole frame, fifteen passes and draws, is one launch for the buckets that `capture` has made ready.
    """

    def __init__(
        self, config: TalkerConfig, weights: PredictorWeights, rows: int, recall: Recall = Recall.CACHE
    ) -> None:
        own, like = config.code_predictor_config, weights.embeddings[0]
        self._weights = weights
        self._recall = recall
        self._width = config.hidden_size
        self._like = like
        self._cache = SlotCache(own, rows, own.num_code_groups, like.device, like.dtype)
        self._kept: dict[tuple[int, int, int], Places] = {}
        self._graphs: GraphCache[Bucket] = GraphCache(self._complete, like.device)
        self.draws = own.num_code_groups - 1
        self.codes = own.vocab_size

    def capture(self, rows: int, draw: Draw) -> None:
        """Makes frames of so many rows quick to launch, where all are drawn like `draw`."""
        table = DrawTable(rows, self.codes, self._like.device, draw)
        hidden = self._like.new_zeros(rows, self._width)
        noise = torch.ones(rows, self.draws, self.codes, device=self._like.device)
        with torch.inference_mode():
            bucket, inputs = _bucket(hidden, hidden, table.batch(range(rows), slice(0, rows)), noise)
            self._graphs.capture(bucket, *inputs)

    def complete(
        self, hidden: torch.Tensor, first: torch.Tensor, draws: DrawBatch, noise: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The Talker's last hidden state and its code's embedding, both (n, talker hidden), and (n, 15, codes) noise.

        Gives the codes 1 to 15 of each row (n, 15), and all their embeddings (n, 15, talker hidden), valid until the
        next call.
        """
        bucket, inputs = _bucket(hidden, first, draws, noise)
        codes, embeddings = self._graphs(bucket, *inputs)
        return codes, embeddings

    def _complete(self, bucket: Bucket, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden, first, noise, temperature, last, *others = tensors
        draws = DrawBatch(
            temperature,
            last,
            bucket.most,
            tail=others[0] if bucket.has_tail else None,
            greedy=others[-1] if bucket.has_greedy else None,
        )
        weights = self._weights
        inputs = [self._narrow(hidden), self._narrow(first)]
        codes: list[torch.Tensor] = []
        embeddings: list[torch.Tensor] = []
        for index, (head, table) in enumerate(zip(weights.heads, weights.embeddings, strict=True)):
            scores = head(self._last_hidden(inputs)).float()
            codes.append(choose(scores, draws, noise[:, index]))
            embeddings.append(F.embedding(codes[-1], table))
            inputs.append(self._narrow(embeddings[-1]))
        return torch.stack(codes, 1), torch.stack(embeddings, 1)

    def _last_hidden(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """What the stack says at the newest of the positions."""
        rows = len(inputs[0])
        # The first code is read with the Talker's state before it, so two positions are new.
        known = 0 if self._recall is Recall.REPEAT or len(inputs) == 2 else len(inputs) - 1
        new = torch.stack(list(inputs[known:]), 1)
        return self._weights.stack(new, self._cache, self._places(rows, known, len(inputs)))[:, -1]

    def _places(self, rows: int, known: int, end: int) -> Places:
        """They are the same in every frame: kept, so that a pass makes no tensor from the host's numbers."""
        key = (rows, known, end)
        if key not in self._kept:
            self._kept[key] = self._cache.places(Span(range(rows), [known] * rows, [end - known] * rows))
        return self._kept[key]

    def _narrow(self, x: torch.Tensor) -> torch.Tensor:
        return x if self._weights.projection is None else F.linear(x, *self._weights.projection)


def _bucket(
    hidden: torch.Tensor, first: torch.Tensor, draws: DrawBatch, noise: torch.Tensor
) -> tuple[Bucket, list[torch.Tensor]]:
    bucket = Bucket(len(hidden), draws.most, draws.tail is not None, draws.greedy is not None)
    given = [hidden, first, noise, draws.temperature, draws.last, draws.tail, draws.greedy]
    return bucket, [tensor for tensor in given if tensor is not None]


def quickest(
    config: TalkerConfig, weights: PredictorWeights, rows: int, now_s: Callable[[], float]
) -> tuple[Recall, dict[Recall, float]]:
    """The way to recall that completes a frame of so many rows sooner here, and the seconds that each took."""
    ways = {recall: CodePredictor(config, weights, rows, recall) for recall in Recall}
    like = weights.embeddings[0]
    draws = DrawTable(rows, config.code_predictor_config.vocab_size, like.device, Draw())
    hidden = like.new_zeros(rows, config.hidden_size)
    took_s = dict.fromkeys(Recall, math.inf)
    for way in ways.values():
        way.capture(rows, Draw())
    noise = torch.ones(rows, config.num_code_groups - 1, config.code_predictor_config.vocab_size, device=like.device)
    with torch.inference_mode():
        for _ in range(MEASURED):
            for recall, way in ways.items():
                began_s = now_s()
                codes, _embeddings = way.complete(hidden, hidden, draws.batch(range(rows), slice(0, rows)), noise)
                codes.cpu()  # waits for it
                took_s[recall] = min(took_s[recall], now_s() - began_s)
    return min(took_s, key=took_s.__getitem__), took_s
