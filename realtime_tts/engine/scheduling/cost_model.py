"""Cost model: what a launch of each stage takes, as straight lines that are fitted online to measured launches."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class LinearCost:
    """`base_s + per_unit_s · units` seconds: the fixed price of a launch, and the price of each row or frame in it."""

    base_s: float
    per_unit_s: float

    def __call__(self, units: float) -> float:
        return self.base_s + self.per_unit_s * units


class CostFit:
    """Recursive least squares of a `LinearCost`, from a prior that counts like a few measurements.

    Old steps fade (a device throttles, another process starts and ends).  A moving average of step times lags behind
    a burst, where predicting with the line at the *present* batch does not: 370 ms p99 against 118 (simulated).
    Never negative: a slope below zero is noise, or a batch size that never varied.

    Another process on the device makes every step more expensive at once, long before the line has moved.  `_drift` is
    the ratio of the last few steps to the line; above 1 it scales the prediction.  Below 1 it is ignored: a step that
    ends early does no harm.
    """

    FORGETTING = 0.99
    PRIOR_WEIGHT = 4.0
    DEVIATION_WEIGHT = 0.05
    DRIFT_WEIGHT = 0.25
    MOST_DRIFT = 3.0
    """The ratio that one step may count as: a single step may have been interrupted."""

    def __init__(self, prior: LinearCost, typical_units: float = 1.0) -> None:
        """`typical_units` is where the prior has most weight: the usual size of a batch."""
        self._weight = self._units = self._seconds = self._units2 = self._product = 0.0
        for units in (0.5 * typical_units, 1.5 * typical_units):
            self._add(units, prior(units), 0.5 * self.PRIOR_WEIGHT)
        self._cost = prior
        self._drift = 1.0
        self.deviation_s = 0.0
        """Mean absolute difference between a step and its prediction."""

    @property
    def cost(self) -> LinearCost:
        factor = max(1.0, self._drift)
        return LinearCost(factor * self._cost.base_s, factor * self._cost.per_unit_s)

    def observe(self, units: float, seconds: float) -> None:
        expected_s = self._cost(units)
        if expected_s > 0.0:
            self._drift += self.DRIFT_WEIGHT * (min(seconds / expected_s, self.MOST_DRIFT) - self._drift)
        self.deviation_s += self.DEVIATION_WEIGHT * (abs(seconds - expected_s) - self.deviation_s)
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
            # One batch size gives only its mean; the slope stays that of the prior.
            slope_s = min(self._cost.per_unit_s, mean_s / mean_units if mean_units else 0.0)
        else:
            slope_s = max(0.0, covariance / variance)
        base_s = mean_s - slope_s * mean_units
        if base_s < 0.0 and mean_units > 0.0:
            return LinearCost(0.0, mean_s / mean_units)
        return LinearCost(max(0.0, base_s), slope_s)


@dataclass(frozen=True, slots=True)
class UpstreamCosts:
    """What a stage before the frame stage costs, such as a Thinker.

    `step` is one launch by rows, `prefill_s` what a new row adds to its first launch, `units_per_row` what a row gains
    by a launch, `units_per_frame` how many of these units become one codec frame.
    """

    stage: str
    step: LinearCost
    prefill_s: float = 0.0
    units_per_row: float = 1.0
    units_per_frame: float = 1.0

    def seconds_per_frame(self, rows: float) -> float:
        """Time in launches of `rows` rows until each row has the units of one more frame."""
        return self.step(rows) * self.units_per_frame / self.units_per_row


@dataclass(frozen=True, slots=True)
class PipelineCosts:
    """What the stages of a model cost, as far as the scheduling rules need it.

    `frame` is one launch of the frame stage by rows (a0, b0), `prefill_s` what a new row adds to its first launch,
    `frames_per_row` the frames that a row gains by it, `decode` one launch of the last stage by frames (a1, b1),
    context included.  `deviation_s` is how far launches of these two stages are from their lines.  `upstream` are the
    stages before the frame stage, in order.
    """

    frame: LinearCost
    decode: LinearCost
    prefill_s: float = 0.0
    frames_per_row: float = 1.0
    deviation_s: float = 0.0
    upstream: tuple[UpstreamCosts, ...] = ()

    def report(self) -> dict[str, object]:
        """As JSON values, under the names that /readyz has for them."""
        report = asdict(self)
        report["scatter_s"] = report.pop("deviation_s")
        upstream = report.pop("upstream")
        return report | {"upstream": upstream} if upstream else report


class StepFit:
    """The cost of one stage that steps, by rows; the prompts that it reads are counted apart."""

    SMOOTHING = 0.05
    """Weight of one measurement of `prefill_s` and `units_per_row`: both vary with the text."""

    def __init__(self, prior: LinearCost, prefill_s: float, units_per_row: float, typical_rows: float) -> None:
        self.fit = CostFit(prior, typical_rows)
        self.prefill_s = prefill_s
        self.units_per_row = units_per_row

    def observe(self, rows: int, new_rows: int, units: int, seconds: float) -> None:
        """A launch that took `seconds`, stepped `rows` rows and gave `units` in all.

        Of `new_rows` some of the prompt was read; where nothing else was done, `rows` is 0.
        """
        if new_rows:
            step_s = self.fit.cost(rows) if rows else 0.0
            extra_s = max(0.0, seconds - step_s) / new_rows
            self.prefill_s += self.SMOOTHING * (extra_s - self.prefill_s)
        elif rows:
            self.fit.observe(rows, seconds)
        if rows:
            self.units_per_row += self.SMOOTHING * (units / rows - self.units_per_row)


class CostModel:
    """The costs of all stages, fitted to every launch that the engine commits."""

    SMOOTHING = 0.1
    """Weight of one request in `units_per_frame`."""

    def __init__(self, prior: PipelineCosts, *, typical_rows: float, typical_frames: float) -> None:
        self._upstream = prior.upstream
        steps = [(each.step, each.prefill_s, each.units_per_row) for each in prior.upstream]
        steps.append((prior.frame, prior.prefill_s, prior.frames_per_row))
        self._steps = tuple(StepFit(*step, typical_rows) for step in steps)
        self._units_per_frame = [each.units_per_frame for each in prior.upstream]
        self._decode = CostFit(prior.decode, typical_frames)
        self._decode.deviation_s = prior.deviation_s

    @property
    def costs(self) -> PipelineCosts:
        frame, decode = self._steps[-1], self._decode
        return PipelineCosts(
            frame.fit.cost,
            decode.cost,
            frame.prefill_s,
            frame.units_per_row,
            frame.fit.deviation_s + decode.deviation_s,
            tuple(self._upstream_costs(index) for index in range(len(self._upstream))),
        )

    def _upstream_costs(self, index: int) -> UpstreamCosts:
        fit, name = self._steps[index], self._upstream[index].stage
        return UpstreamCosts(name, fit.fit.cost, fit.prefill_s, fit.units_per_row, self._units_per_frame[index])

    def observe_step(self, index: int, rows: int, new_rows: int, units: int, seconds: float) -> None:
        """A launch of stage `index`, which is not the last one: see `StepFit.observe`."""
        self._steps[index].observe(rows, new_rows, units, seconds)

    def observe_decode(self, frames: float, seconds: float) -> None:
        """A launch of the last stage over `frames` in all, context included: see `ChunkPlan.cost_frames`."""
        self._decode.observe(frames, seconds)

    def observe_request(self, units: Sequence[int], frames: int) -> None:
        """A whole request gave `units` of each stage before the frame stage, and `frames`."""
        for index, count in enumerate(units):
            self._units_per_frame[index] += self.SMOOTHING * (count / frames - self._units_per_frame[index])
