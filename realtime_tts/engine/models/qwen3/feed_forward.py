"""Feed-forward layers of a block: dense, or a mixture of experts with an optional expert that every token uses."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from realtime_tts.engine.models.qwen3.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3.config import ExpertsConfig, StackConfig
from realtime_tts.engine.models.qwen3.linear import PackedLinear


class FeedForward(Protocol):
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """(n, t, hidden) to the same shape."""
        ...


@dataclass(frozen=True, slots=True)
class Dense:
    """SwiGLU; gate and up are one weight."""

    gate_up: PackedLinear
    down: PackedLinear

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up(x).chunk(2, -1)
        return self.down(F.silu(gate) * up)


@dataclass(frozen=True, slots=True)
class SharedExpert:
    """The expert that every token uses, scaled by a gate of its own."""

    feed_forward: Dense
    gate: torch.Tensor
    """(1, hidden)"""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(F.linear(x, self.gate)) * self.feed_forward(x)


class ExpertsMethod(StrEnum):
    """How the experts of a batch are computed; both methods give the same values.

    LOOP visits the experts that some row uses, GROUPED computes all in two launches.  On a GPU the loop waits for the
    device; GROUPED has the groups' offsets there, so that a CUDA graph can capture it.  That holds for bfloat16 on GPUs
    from compute capability 9.0 on; for others torch reads the offsets on the host, and loops itself
    (github.com/pytorch/pytorch, pulls 161407 and 162059).

    On a CPU, milliseconds for one published Talker layer at 1 / 4 / 16 / 64 rows: in bfloat16 LOOP takes
    2.9 / 28 / 127 / 533 and GROUPED 33 / 97 / 422 / 1367 (two cores), in float32 2.7 / 11 / 31 / 68 and
    2.5 / 9.0 / 25 / 60 (one core).  A layer of 8 experts of 64 × 24 takes 0.59 and 0.22 at 4 rows.
    """

    LOOP = "loop"
    GROUPED = "grouped"


def default_method(device: torch.device, dtype: torch.dtype) -> ExpertsMethod:
    """The method that is fastest there, and on a GPU that a CUDA graph can capture, if there is one."""
    if device.type != "cuda":
        return ExpertsMethod.GROUPED if dtype == torch.float32 else ExpertsMethod.LOOP
    if dtype != torch.bfloat16:
        return ExpertsMethod.LOOP
    if not torch.cuda.is_available():
        return ExpertsMethod.GROUPED  # nothing will run: the answer for a current GPU
    major, _minor = torch.cuda.get_device_capability(device)
    return ExpertsMethod.GROUPED if major >= 9 else ExpertsMethod.LOOP


@dataclass(frozen=True, slots=True)
class Experts:
    """SwiGLU experts: each token uses the `per_token` most likely ones, weighted by their probabilities."""

    router: torch.Tensor
    """(experts, hidden)"""
    gate_up: torch.Tensor
    """(experts, 2 · inner, hidden)"""
    down: torch.Tensor
    """(experts, hidden, inner)"""
    per_token: int
    renormalised: bool
    shared: SharedExpert | None
    method: ExpertsMethod

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(0, -2)
        # In float32 over all experts, as in the reference.
        probabilities = F.linear(flat, self.router).softmax(-1, dtype=torch.float32)
        weights, chosen = probabilities.topk(self.per_token, -1)
        if self.renormalised:
            weights = weights / weights.sum(-1, keepdim=True)
        compute = self._loop if self.method is ExpertsMethod.LOOP else self._grouped
        output = compute(flat, weights.to(x.dtype), chosen)
        if self.shared is not None:
            output = output + self.shared(flat)
        return output.view(x.shape)

    def _loop(self, x: torch.Tensor, weights: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        output = torch.zeros_like(x)
        for expert in torch.unique(chosen).tolist():
            rows, ranks = (chosen == expert).nonzero(as_tuple=True)
            gate, up = F.linear(x[rows], self.gate_up[expert]).chunk(2, -1)
            made = F.linear(F.silu(gate) * up, self.down[expert])
            output.index_add_(0, rows, made * weights[rows, ranks, None])
        return output

    def _grouped(self, x: torch.Tensor, weights: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        experts = chosen.flatten()
        order = experts.argsort(stable=True)
        # Not bincount: on a GPU it waits for the device.
        counts = experts.new_zeros(len(self.router)).scatter_add_(0, experts, torch.ones_like(experts))
        ends = counts.cumsum(0).to(torch.int32)
        ordered = x[order // self.per_token]
        gate, up = F.grouped_mm(ordered, self.gate_up.transpose(1, 2), offs=ends).chunk(2, -1)
        made = F.grouped_mm(F.silu(gate) * up, self.down.transpose(1, 2), offs=ends)
        output = torch.empty_like(made)
        output[order] = made
        return (output.view(len(x), self.per_token, -1) * weights[..., None]).sum(1)


def load_feed_forward(
    checkpoint: Checkpoint, prefix: str, config: StackConfig, *, keep_transposed: bool = False
) -> FeedForward:
    """The tensors under `prefix`, such as "talker.model.layers.0.mlp.".  Raises ModelNotUsable."""
    if config.experts is None:
        return _load_dense(checkpoint, prefix, config.hidden_size, config.intermediate_size, keep_transposed)
    return _load_experts(checkpoint, prefix, config.hidden_size, config.experts)


def _load_dense(checkpoint: Checkpoint, prefix: str, hidden: int, inner: int, keep_transposed: bool) -> Dense:
    gate = checkpoint.read(f"{prefix}gate_proj.weight", (inner, hidden))
    up = checkpoint.read(f"{prefix}up_proj.weight", (inner, hidden))
    down = checkpoint.read(f"{prefix}down_proj.weight", (hidden, inner))
    return Dense(
        PackedLinear.concat(gate, up, keep_transposed=keep_transposed),
        PackedLinear(down, keep_transposed=keep_transposed),
    )


def _load_experts(checkpoint: Checkpoint, prefix: str, hidden: int, config: ExpertsConfig) -> Experts:
    count, inner = config.count, config.inner
    router = checkpoint.read(f"{prefix}gate.weight", (count, hidden))
    # Each expert is copied into its place, so that there are never two copies of a layer.
    gate_up = router.new_empty(count, 2 * inner, hidden)
    down = router.new_empty(count, hidden, inner)
    for expert in range(count):
        name = f"{prefix}experts.{expert}."
        checkpoint.read_into(f"{name}gate_proj.weight", gate_up[expert, :inner])
        checkpoint.read_into(f"{name}up_proj.weight", gate_up[expert, inner:])
        checkpoint.read_into(f"{name}down_proj.weight", down[expert])
    shared = None
    if config.shared_inner is not None:
        feed_forward = _load_dense(checkpoint, f"{prefix}shared_expert.", hidden, config.shared_inner, False)
        shared = SharedExpert(feed_forward, checkpoint.read(f"{prefix}shared_expert_gate.weight", (1, hidden)))
    return Experts(
        router,
        gate_up,
        down,
        config.per_token,
        config.renormalised,
        shared,
        default_method(router.device, router.dtype),
    )
