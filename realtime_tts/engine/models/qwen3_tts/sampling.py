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


def refresh(noise: torch.Tensor, generator: torch.Generator, draw: Draw) -> None:
    """New numbers (draws, codes) or (codes,) for `choose`, in place and from one request's generator alone.

    On a CPU they are those of `torch.multinomial` called once for each draw.
    """
    if draw.greedy:
        noise.fill_(1)
    else:
        noise.exponential_(generator=generator)


@dataclass(frozen=True, slots=True)
class DrawBatch:
    """How the rows of a batch are drawn, as tensors (n, 1)."""

    temperature: torch.Tensor
    last: torch.Tensor
    """The place of the worst score that is left in, from 0."""
    most: int
    """How many are left in at most, in any row, or more."""
    tail: torch.Tensor | None
    """The probability that is cut off; None where no row has one."""
    greedy: torch.Tensor | None
    """Whether the best is taken; None where no row is so."""


class DrawTable:
    """How each of `slots` rows is drawn from `size` scores, kept on the device: a step then sends nothing there."""

    def __init__(self, slots: int, size: int, device: torch.device, draw: Draw = Draw()) -> None:
        self._size = size
        self._draws = [draw] * slots
        self._numbers = torch.empty(slots, 2, device=device)
        self._last = torch.empty(slots, 1, dtype=torch.long, device=device)
        self._greedy = torch.empty(slots, 1, dtype=torch.bool, device=device)
        for slot in range(slots):
            self.put(slot, draw)

    def put(self, slot: int, draw: Draw) -> None:
        self._draws[slot] = draw
        temperature = 1.0 if draw.greedy else float(draw.temperature)
        self._numbers[slot] = torch.tensor([temperature, 1.0 - draw.top_p], device=self._numbers.device)
        self._last[slot] = self._kept(draw) - 1
        self._greedy[slot] = draw.greedy

    def batch(self, slots: Sequence[int], index: "slice | torch.Tensor") -> DrawBatch:
        """The rows of these slots, which `index` picks from a tensor."""
        draws = [self._draws[slot] for slot in slots]
        return DrawBatch(
            temperature=self._numbers[index, :1],
            last=self._last[index],
            most=min(self._size, _rounded(max(self._kept(draw) for draw in draws))),
            tail=self._numbers[index, 1:] if any(draw.top_p < 1 for draw in draws) else None,
            greedy=self._greedy[index] if any(draw.greedy for draw in draws) else None,
        )

    def _kept(self, draw: Draw) -> int:
        return min(draw.top_k or self._size, self._size)


def _rounded(count: int) -> int:
    """A power of two, so that there are few of them to capture."""
    return 1 << (count - 1).bit_length()


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
