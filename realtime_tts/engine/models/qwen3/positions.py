"""Rotary positions: of one axis, or of three (time, height, width) whose frequencies are interleaved."""

import torch

from realtime_tts.engine.models.qwen3.config import StackConfig


class RopeTable:
    """Cosines and sines of the positions [0, `positions`), computed once in float32; halves rotate, not pairs."""

    def __init__(self, config: StackConfig, positions: int, device: torch.device, dtype: torch.dtype) -> None:
        exponents = torch.arange(0, config.head_dim, 2, device=device).float() / config.head_dim
        angles = torch.arange(positions, device=device).float()[:, None] * (1.0 / config.rope_theta**exponents)
        cosine, sine = angles.cos(), angles.sin()
        self._cos = torch.cat([cosine, cosine], -1).to(dtype)
        # The sine has the sign with which the other half is added.
        self._sin = torch.cat([-sine, sine], -1).to(dtype)
        axes = _axes(config)
        self._axis_masks = None if axes is None else tuple((axes == axis).to(device) for axis in (1, 2))

    def __call__(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosine and signed sine (n, 1, t, head_dim) of positions (n, t), or of three axes of them (3, n, t)."""
        if positions.dim() == 2:
            return self._cos[positions][:, None], self._sin[positions][:, None]
        assert self._axis_masks is not None, "this stack has positions of one axis only"
        return self._interleave(self._cos[positions])[:, None], self._interleave(self._sin[positions])[:, None]

    def _interleave(self, table: torch.Tensor) -> torch.Tensor:
        """(3, n, t, head_dim) to (n, t, head_dim): the frequencies of each axis."""
        assert self._axis_masks is not None
        height, width = self._axis_masks
        return torch.where(width, table[2], torch.where(height, table[1], table[0]))


def _axes(config: StackConfig) -> torch.Tensor | None:
    """(head_dim,): the axis of each frequency, 0 for time, 1 for height, 2 for width.  None with one axis only.

    Frequency j is of height where j ≡ 1 (mod 3) and of width where j ≡ 2 (mod 3), up to three times the section's
    size; all others are of time (transformers 5.24, `Qwen3OmniMoeThinkerTextRotaryEmbedding`).
    """
    if config.rope_sections is None:
        return None
    axes = torch.zeros(config.head_dim // 2, dtype=torch.long)
    for axis in (1, 2):
        axes[axis : 3 * config.rope_sections[axis] : 3] = axis
    return torch.cat([axes, axes])
