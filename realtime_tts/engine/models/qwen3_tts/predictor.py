"""The other fifteen codes of a frame: a small stack that reads one code after the other, anew for each frame."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from realtime_tts.engine.models.qwen3_tts.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3_tts.config import TalkerConfig
from realtime_tts.engine.models.qwen3_tts.layers import Places, SlotCache, Span, Stack, load_stack
from realtime_tts.engine.models.qwen3_tts.sampling import DrawBatch, choose

PREFIX = "talker.code_predictor."


class Recall(StrEnum):
    """How a code sees those before it; the codes are the same.

    CACHE keeps their keys and values; REPEAT computes them again, which is less work to launch for a small batch on a
    GPU.  On two CPU cores the cache won: 237 ms a frame against 460 at n = 4 (0.6B).
    """

    CACHE = "cache"
    REPEAT = "repeat"


@dataclass(frozen=True, slots=True)
class PredictorWeights:
    """Embeddings and heads are in the order of their codes: the first is that of code 1 (code 0 is the Talker's)."""

    stack: Stack
    embeddings: tuple[torch.Tensor, ...]
    heads: tuple[torch.Tensor, ...]
    projection: tuple[torch.Tensor, torch.Tensor] | None
    """From the Talker's width to this stack's, weight and bias, where they differ."""


def load_predictor(checkpoint: Checkpoint, config: TalkerConfig) -> PredictorWeights:
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
        stack=load_stack(checkpoint, f"{PREFIX}model.", own),
        embeddings=tuple(checkpoint.take(f"{PREFIX}model.codec_embedding.{g}.weight", embedding) for g in groups),
        heads=tuple(checkpoint.take(f"{PREFIX}lm_head.{g}.weight", head) for g in groups),
        projection=projection,
    )


class CodePredictor:
    """Completes frames, up to `rows` of them at once."""

    def __init__(
        self, config: TalkerConfig, weights: PredictorWeights, rows: int, recall: Recall = Recall.CACHE
    ) -> None:
        own, like = config.code_predictor_config, weights.heads[0]
        self._weights = weights
        self._recall = recall
        self._cache = SlotCache(own, rows, own.num_code_groups, like.device, like.dtype)
        self._kept: dict[tuple[int, int, int], Places] = {}
        self.draws = own.num_code_groups - 1
        self.codes = own.vocab_size

    def complete(
        self, hidden: torch.Tensor, first: torch.Tensor, draws: DrawBatch, noise: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The Talker's last hidden state and its code's embedding, both (n, talker hidden), and (n, 15, codes) noise.

        Gives the codes 1 to 15 of each row (n, 15), and all their embeddings (n, 15, talker hidden).
        """
        weights = self._weights
        inputs = [self._narrow(hidden), self._narrow(first)]
        codes: list[torch.Tensor] = []
        embeddings: list[torch.Tensor] = []
        for index, (head, table) in enumerate(zip(weights.heads, weights.embeddings, strict=True)):
            scores = F.linear(self._last_hidden(inputs), head).float()
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
