"""How one code is drawn from scores: penalty, temperature, top-k, top-p, and a generator for each request."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from realtime_tts.engine.models.qwen3_tts.config import GenerationConfig

COLDEST = 0.01
"""Below this, scores overflow before any other code than the best could be drawn: ask for 0 instead."""


@dataclass(frozen=True, slots=True)
class Draw:
    """How one of several codes is chosen.  Temperature 0 takes the best; top_k 0 and top_p 1 leave all in."""

    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not (self.temperature == 0 or COLDEST <= self.temperature < math.inf):
            raise ValueError(f"temperature must be 0 or at least {COLDEST}, got {self.temperature}")
        if self.top_k < 0:
            raise ValueError(f"top_k must not be negative, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


@dataclass(frozen=True, slots=True)
class CodeSampling:
    """How the codes of a request are drawn: the first of each frame by `talker`, the others by `predictor`."""

    talker: Draw = Draw()
    predictor: Draw = Draw()
    repetition_penalty: float = 1.05
    seed: int | None = None
    """The same seed gives the same codes, whatever else runs.  None draws one."""

    def __post_init__(self) -> None:
        if not 0 < self.repetition_penalty < math.inf:
            raise ValueError(f"repetition_penalty must be positive, got {self.repetition_penalty}")

    def generator(self, device: torch.device) -> torch.Generator:
        generator = torch.Generator(device)
        if self.seed is None:
            generator.seed()
        else:
            # Any integer is a seed; the generator itself takes 64 bits.
            generator.manual_seed(self.seed % 2**63)
        return generator


def published_sampling(config: GenerationConfig, seed: int | None = None) -> CodeSampling:
    """As the publisher would have it.  Raises ValueError for values that make no sense."""
    talker = Draw(config.temperature if config.do_sample else 0, config.top_k, config.top_p)
    temperature = config.subtalker_temperature if config.subtalker_dosample else 0
    predictor = Draw(temperature, config.subtalker_top_k, config.subtalker_top_p)
    return CodeSampling(talker, predictor, config.repetition_penalty, seed)


def penalised(scores: torch.Tensor, seen: torch.Tensor, penalty: torch.Tensor) -> torch.Tensor:
    """Makes what a row has said before less likely: scores and seen (n, v), penalty (n,).

    As in CTRL (arXiv 1909.05858, 4.1), but for negative scores, which are multiplied.
    """
    penalty = penalty[:, None]
    return torch.where(seen, torch.where(scores < 0, scores * penalty, scores / penalty), scores)


def noise(generator: torch.Generator, codes: int, *, draws: int, greedy: bool = False) -> torch.Tensor:
    """(draws, codes): what `choose` needs for so many draws, from one request's generator alone.

    On a CPU the numbers are those of `torch.multinomial` called once for each draw.
    """
    if greedy:
        return torch.ones(draws, codes, device=generator.device)
    return torch.empty(draws, codes, device=generator.device).exponential_(generator=generator)


@dataclass(frozen=True, slots=True)
class DrawBatch:
    """How the rows of a batch are drawn, as tensors (n, 1): made once for all the draws of a frame."""

    temperature: torch.Tensor
    last: torch.Tensor
    """The place of the worst score that is left in, from 0."""
    most: int
    """How many are left in at most, in any row."""
    tail: torch.Tensor | None
    """The probability that is cut off; None where no row has one."""
    greedy: torch.Tensor | None
    """Whether the best is taken; None where no row is so."""


def draw_batch(draws: Sequence[Draw], size: int, device: torch.device) -> DrawBatch:
    """For `size` scores a row."""

    def column(values: Sequence[float | bool]) -> torch.Tensor:
        return torch.tensor(values, device=device)[:, None]

    kept = [min(draw.top_k or size, size) for draw in draws]
    return DrawBatch(
        temperature=column([1.0 if draw.greedy else float(draw.temperature) for draw in draws]),
        last=column([k - 1 for k in kept]),
        most=max(kept),
        tail=column([1.0 - draw.top_p for draw in draws]) if any(draw.top_p < 1 for draw in draws) else None,
        greedy=column([draw.greedy for draw in draws]) if any(draw.greedy for draw in draws) else None,
    )


def choose(scores: torch.Tensor, draws: DrawBatch, noise: torch.Tensor) -> torch.Tensor:
    """The index of one score a row: scores (n, v) float32, noise (n, v) -> (n,).

    An exponential race: probability / noise is largest at each index just as often as its probability says.
    `torch.multinomial` draws one sample this way too, so the same generator gives the same index.  Unlike it, this
    neither waits for the device nor stops it when a score is not a number.
    """
    kept = scores / draws.temperature
    # Only the k best; more where several are equal to the last of them.
    kept = kept.masked_fill(kept < kept.topk(draws.most).values.gather(-1, draws.last), -math.inf)
    if draws.tail is not None:
        kept = _nucleus(kept, draws.tail)
    race = kept.softmax(-1) / noise
    if draws.greedy is not None:
        race = torch.where(draws.greedy, scores, race)
    return race.argmax(-1)


def _nucleus(scores: torch.Tensor, tail: torch.Tensor) -> torch.Tensor:
    """Only the likeliest that together have more than 1 - tail, and always the best."""
    ordered, index = scores.sort()
    removed = ordered.softmax(-1).cumsum(-1) <= tail
    removed[:, -1] = False
    # With a tail of 0 nothing goes, not even what has no probability left: it cannot be drawn anyway.
    return scores.masked_fill(torch.empty_like(removed).scatter_(-1, index, removed), -math.inf)
