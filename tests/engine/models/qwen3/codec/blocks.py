"""Random weights of one upsampling block, by their names in a checkpoint under `b`."""

import torch

from realtime_tts.engine.models.qwen3.codec.decoder import DILATIONS


def block_state(channels: int, rate: int) -> dict[str, torch.Tensor]:
    half, generator = channels // 2, torch.Generator().manual_seed(0)
    shapes: dict[str, tuple[int, ...]] = {
        "b.0.alpha": (channels,),
        "b.0.beta": (channels,),
        "b.1.conv.weight": (channels, half, 2 * rate),
        "b.1.conv.bias": (half,),
    }
    for number in range(2, 2 + len(DILATIONS)):
        shapes |= {f"b.{number}.{act}.{name}": (half,) for act in ("act1", "act2") for name in ("alpha", "beta")}
        shapes |= {f"b.{number}.conv1.conv.weight": (half, half, 7), f"b.{number}.conv1.conv.bias": (half,)}
        shapes |= {f"b.{number}.conv2.conv.weight": (half, half, 1), f"b.{number}.conv2.conv.bias": (half,)}
    return {name: 0.4 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}
