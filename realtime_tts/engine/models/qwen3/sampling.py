"""Sampling of one code from scores: repetition penalty, temperature, top-k, top-p, and a generator per request."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from realtime_tts.engine.api import Sampling

MIN_TEMPERATURE = 0.01
"""Below this, scores overflow before any code other than the best could be drawn; 0 selects the best instead."""
MIN_TOP_P = 1e-6
"""Replaces 0: only the best code is kept."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Parameters of one draw.  Temperature 0 selects the best code; top_k 0 and top_p 1 exclude none."""

    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not (self.temperature == 0 or MIN_TEMPERATURE <= self.temperature < math.inf):
            raise ValueError(f"temperature must be 0 or at least {MIN_TEMPERATURE}, got {self.temperature}")
        if self.top_k < 0:
            raise ValueError(f"top_k must not be negative, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


@dataclass(frozen=True, slots=True)
class CodeSampling:
    """Sampling of a request: `talker` for the first code of each frame, `predictor` for the others."""

    talker: SamplingParams = SamplingParams()
    predictor: SamplingParams = SamplingParams()
    repetition_penalty: float = 1.05
    seed: int | None = None
    """The same seed gives the same codes, whatever else runs.  None draws a seed."""

    def __post_init__(self) -> None:
        if not 0 < self.repetition_penalty < math.inf:
            raise ValueError(f"repetition_penalty must be positive, got {self.repetition_penalty}")

    def generator(self, device: torch.device) -> torch.Generator:
        generator = torch.Generator(device)
        if self.seed is None:
            generator.seed()
        else:
            # Any integer is a seed; the generator accepts 64 bits.
            generator.manual_seed(self.seed % 2**63)
        return generator


def code_sampling(published: CodeSampling, requested: Sampling, seed: int) -> CodeSampling:
    """The published sampling parameters, overridden by those of a request.

    A request's parameters apply to the first code of a frame, as in the reference, which has others for the fifteen
    after it.  But temperature 0 makes all codes deterministic.
    """
    talker, predictor = published.talker, published.predictor
    temperature = talker.temperature if requested.temperature is None else requested.temperature
    if temperature < MIN_TEMPERATURE:
        temperature = 0.0
        predictor = replace(predictor, temperature=0.0)
    params = SamplingParams(
        temperature,
        talker.top_k if requested.top_k is None else requested.top_k,
        talker.top_p if requested.top_p is None else max(requested.top_p, MIN_TOP_P),
    )
    penalty = published.repetition_penalty if requested.repetition_penalty is None else requested.repetition_penalty
    return CodeSampling(params, predictor, penalty, seed)


def apply_repetition_penalty(scores: torch.Tensor, seen: torch.Tensor, penalty: torch.Tensor) -> torch.Tensor:
    """Makes the earlier codes of a row less likely: scores and seen (n, v), penalty (n,).

    As in CTRL (arXiv 1909.05858, 4.1), except that negative scores are multiplied.
    """
    penalty = penalty[:, None]
    return torch.where(seen, torch.where(scores < 0, scores * penalty, scores / penalty), scores)


def fill_noise(noise: torch.Tensor, generator: torch.Generator, params: SamplingParams) -> None:
    """Fills (draws, codes) or (codes,) with the random numbers of `sample`, from one request's generator.

    On a CPU they are those of `torch.multinomial` called once for each draw.
    """
    if params.greedy:
        noise.fill_(1)
    else:
        noise.exponential_(generator=generator)


@dataclass(frozen=True, slots=True)
class SamplingBatch:
    """The sampling parameters of a batch's rows, as tensors (n, 1)."""

    temperature: torch.Tensor
    last_kept: torch.Tensor
    """The rank, from 0, of the lowest score that top-k keeps."""
    max_kept: int
    """At least the number of scores that top-k keeps in any row."""
    tail: torch.Tensor | None
    """The probability that top-p removes; None if no row uses top-p."""
    greedy: torch.Tensor | None
    """Whether the best score is selected; None if no row is greedy."""


class SamplingTable:
    """The sampling parameters of `slots` rows of `size` scores, kept on the device so that a step sends none there."""

    def __init__(self, slots: int, size: int, device: torch.device, params: SamplingParams = SamplingParams()) -> None:
        self._size = size
        self._params = [params] * slots
        self._numbers = torch.empty(slots, 2, device=device)
        self._last_kept = torch.empty(slots, 1, dtype=torch.long, device=device)
        self._greedy = torch.empty(slots, 1, dtype=torch.bool, device=device)
        for slot in range(slots):
            self.set(slot, params)

    def set(self, slot: int, params: SamplingParams) -> None:
        self._params[slot] = params
        temperature = 1.0 if params.greedy else float(params.temperature)
        self._numbers[slot] = torch.tensor([temperature, 1.0 - params.top_p], device=self._numbers.device)
        self._last_kept[slot] = self._kept(params) - 1
        self._greedy[slot] = params.greedy

    def batch(self, slots: Sequence[int], index: "slice | torch.Tensor") -> SamplingBatch:
        """The rows of these slots, which `index` selects from a tensor."""
        params = [self._params[slot] for slot in slots]
        return SamplingBatch(
            temperature=self._numbers[index, :1],
            last_kept=self._last_kept[index],
            max_kept=min(self._size, _next_power_of_two(max(map(self._kept, params)))),
            tail=self._numbers[index, 1:] if any(each.top_p < 1 for each in params) else None,
            greedy=self._greedy[index] if any(each.greedy for each in params) else None,
        )

    def _kept(self, params: SamplingParams) -> int:
        return min(params.top_k or self._size, self._size)


def _next_power_of_two(count: int) -> int:
    """So that few sizes must be captured."""
    return 1 << (count - 1).bit_length()


def sample(scores: torch.Tensor, params: SamplingBatch, noise: torch.Tensor) -> torch.Tensor:
    """The index of one score per row: scores (n, v) float32, noise (n, v) -> (n,).

    An exponential race: the chance that probability / noise is largest at an index is the index's probability.
    `torch.multinomial` draws one sample in the same way, so the same generator gives the same index.  Unlike it, this
    neither waits for the device nor stops it when a score is not a number.
    """
    kept = scores / params.temperature
    # Only the k best, and those that are equal to the last of them.
    kept = kept.masked_fill(kept < kept.topk(params.max_kept).values.gather(-1, params.last_kept), -math.inf)
    if params.tail is not None:
        kept = _nucleus(kept, params.tail)
    race = kept.softmax(-1) / noise
    if params.greedy is not None:
        race = torch.where(params.greedy, scores, race)
    return race.argmax(-1)


def _nucleus(scores: torch.Tensor, tail: torch.Tensor) -> torch.Tensor:
    """The most likely scores that together exceed 1 - tail, and always the best."""
    ordered, index = scores.sort()
    removed = ordered.softmax(-1).cumsum(-1) <= tail
    removed[:, -1] = False
    # A tail of 0 may keep scores of probability 0, which are never drawn.
    return scores.masked_fill(torch.empty_like(removed).scatter_(-1, index, removed), -math.inf)
