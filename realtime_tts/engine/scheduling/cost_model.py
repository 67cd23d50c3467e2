"""How long will a step take?  Straight lines, fitted online to the steps that were measured."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LinearCost:
    """`base_s + per_unit_s · units` seconds: a launch's fixed price, and that of each row or frame in it."""

    base_s: float
    per_unit_s: float

    def __call__(self, units: float) -> float:
        return self.base_s + self.per_unit_s * units


class CostFit:
    """Recursive least squares of a `LinearCost`, from a prior that counts like a few measurements.

    Old steps fade (a device throttles, a neighbour comes and goes).  A moving average of step times would lag behind
    a burst, where predicting with the line at the *present* batch does not: 370 ms p99 against 118 (simulated).
    Never negative: a slope below zero is noise, or a batch size that never varied.

    A neighbour who has just come makes every step dearer at once, long before the line has moved: `_drift`, by how many
    times the last few steps were dearer than it, raises it meanwhile.  It never lowers it: to be early does no harm.
    """

    FORGETTING = 0.99
    PRIOR_WEIGHT = 4.0
    SCATTER_WEIGHT = 0.05
    DRIFT_WEIGHT = 0.25
    MOST_DRIFT = 3.0
    """What one step may count as: it may have been held up."""

    def __init__(self, prior: LinearCost, typical_units: float = 1.0) -> None:
        """`typical_units` is where the prior is believed most: a batch's usual size."""
        self._weight = self._units = self._seconds = self._units2 = self._product = 0.0
        for units in (0.5 * typical_units, 1.5 * typical_units):
            self._add(units, prior(units), 0.5 * self.PRIOR_WEIGHT)
        self._cost = prior
        self._drift = 1.0
        self.scatter_s = 0.0
        """By how much a step misses its prediction, on average."""

    @property
    def cost(self) -> LinearCost:
        dearer = max(1.0, self._drift)
        return LinearCost(dearer * self._cost.base_s, dearer * self._cost.per_unit_s)

    def observe(self, units: float, seconds: float) -> None:
        expected_s = self._cost(units)
        if expected_s > 0.0:
            self._drift += self.DRIFT_WEIGHT * (min(seconds / expected_s, self.MOST_DRIFT) - self._drift)
        self.scatter_s += self.SCATTER_WEIGHT * (abs(seconds - expected_s) - self.scatter_s)
        self._weight *= self.FORGETTING
        self._units *= self.FORGETTING
        self._seconds *= self.FORGETTING
        self._units2 *= self.FORGETTING
        self._product *= self.FORGETTING
        self._add(units, seconds, 1.0)
        self._cost = self._solve()

    def _add(self, units: float, seconds: float, weight: float) -> None:
        self._weight += weight
        self._units += weight * units
        self._seconds += weight * seconds
        self._units2 += weight * units * units
        self._product += weight * units * seconds

    def _solve(self) -> LinearCost:
        mean_units, mean_s = self._units / self._weight, self._seconds / self._weight
        variance = self._units2 / self._weight - mean_units**2
        covariance = self._product / self._weight - mean_units * mean_s
        if variance <= 1e-9 * max(1.0, mean_units**2):
            # One batch size only: its mean is all there is to know; the slope stays as it was believed.
            slope_s = min(self._cost.per_unit_s, mean_s / mean_units if mean_units else 0.0)
        else:
            slope_s = max(0.0, covariance / variance)
        base_s = mean_s - slope_s * mean_units
        if base_s < 0.0 and mean_units > 0.0:
            return LinearCost(0.0, mean_s / mean_units)
        return LinearCost(max(0.0, base_s), slope_s)


@dataclass(frozen=True, slots=True)
class PipelineCosts:
    """What a model's steps cost, as far as the scheduling rules care.

    `frame` is one launch of the frame stage by rows (a0, b0), `prefill_s` what a new row adds to its first launch,
    `frames_per_row` the frames that a row gains by it, `decode` one launch of the last stage by frames (a1, b1),
    and what their context costs.  `scatter_s` is how far steps of both kinds miss these lines.
    """

    frame: LinearCost
    decode: LinearCost
    prefill_s: float = 0.0
    frames_per_row: float = 1.0
    scatter_s: float = 0.0


class CostModel:
    """The pipeline's costs, learnt from every step that the engine commits."""

    SMOOTHING = 0.05
    """Weight of one measurement in what a new row and a launch bring: both vary with the text."""

    def __init__(self, prior: PipelineCosts, *, typical_rows: float, typical_frames: float) -> None:
        self._frame = CostFit(prior.frame, typical_rows)
        self._decode = CostFit(prior.decode, typical_frames)
        self._decode.scatter_s = prior.scatter_s
        self._prefill_s = prior.prefill_s
        self._frames_per_row = prior.frames_per_row

    @property
    def costs(self) -> PipelineCosts:
        scatter_s = self._frame.scatter_s + self._decode.scatter_s
        return PipelineCosts(self._frame.cost, self._decode.cost, self._prefill_s, self._frames_per_row, scatter_s)

    def observe_frames(self, rows: int, new_rows: int, frames: int, seconds: float) -> None:
        """A launch of the frame stage that took `seconds`, stepped `rows`, and gave `frames` in all.

        `new_rows` had some of their prompts read in; where that is all that was done, `rows` is 0.
        """
        if new_rows:
            step_s = self._frame.cost(rows) if rows else 0.0
            extra_s = max(0.0, seconds - step_s) / new_rows
            self._prefill_s += self.SMOOTHING * (extra_s - self._prefill_s)
        elif rows:
            self._frame.observe(rows, seconds)
        if rows:
            self._frames_per_row += self.SMOOTHING * (frames / rows - self._frames_per_row)

    def observe_decode(self, frames: float, seconds: float) -> None:
        """A launch of the last stage over `frames` in all, context included: see `ChunkPlan.cost_frames`."""
        self._decode.observe(frames, seconds)
