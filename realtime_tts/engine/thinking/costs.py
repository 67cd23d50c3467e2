"""Cost model of a Thinker: what a step costs by rows and by prompt tokens, and what follows for its scheduling."""

import math

from realtime_tts.engine.scheduling.cost_model import CostFit, LinearCost
from realtime_tts.engine.thinking.thinker import ThinkerInfo

STEP_SHARE = 0.85
"""The part of a codec frame's playing time that a step may take while listeners need tokens: each step gives one token,
and each frame needs one.  The rest is for jitter."""
LEAST_PROMPT_TOKENS = 16
"""Read in a step at any load, so that no prompt waits for ever."""
MAX_CAPACITY = 4096
TYPICAL_ROWS = 16


class ThinkerCostModel:
    """Fitted to every measured step.  `frame_s` is the playing time of a codec frame of the speech model."""

    FORGETTING = 0.98
    PRIOR_TOKENS = 2000.0
    """The prompt tokens that the prior counts for."""

    def __init__(self, info: ThinkerInfo, frame_s: float) -> None:
        self._step = CostFit(info.step, TYPICAL_ROWS)
        self._tokens = self.PRIOR_TOKENS
        self._prefill_s = self.PRIOR_TOKENS * info.prompt_token_s
        self._most_s = STEP_SHARE * frame_s

    @property
    def step(self) -> LinearCost:
        return self._step.cost

    @property
    def prompt_token_s(self) -> float:
        return self._prefill_s / self._tokens

    @property
    def capacity(self) -> int:
        """The most answers for which a step stays within its share of a frame; at least one."""
        cost = self.step
        if cost.per_unit_s <= 0.0:
            return MAX_CAPACITY
        return min(MAX_CAPACITY, max(1, math.floor((self._most_s - cost.base_s) / cost.per_unit_s)))

    def prompt_budget(self, rows: int) -> int | None:
        """How many prompt tokens a step of `rows` rows may read and stay within its share; None has no limit."""
        if self.prompt_token_s <= 0.0:
            return None
        return max(LEAST_PROMPT_TOKENS, math.floor((self._most_s - self.step(rows)) / self.prompt_token_s))

    def observe(self, rows: int, prompt_tokens: int, seconds: float) -> None:
        """A step of `rows` rows that also read so many tokens of prompts."""
        if not prompt_tokens:
            self._step.observe(rows, seconds)
            return
        self._tokens = self.FORGETTING * self._tokens + prompt_tokens
        self._prefill_s = self.FORGETTING * self._prefill_s + max(0.0, seconds - self.step(rows))
