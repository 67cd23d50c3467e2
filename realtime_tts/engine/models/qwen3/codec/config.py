"""Configuration of the codec's decoder."""

from dataclasses import dataclass
from math import prod
from typing import Annotated, Literal

import msgspec

Count = Annotated[int, msgspec.Meta(ge=1)]
Several = Annotated[int, msgspec.Meta(ge=2)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Counts = Annotated[tuple[Count, ...], msgspec.Meta(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig:
    """Codes to audio: the parts that all decoders of the codec have."""

    codebook_size: Count = 2048
    num_quantizers: Several = 16
    latent_dim: Count = 1024
    hidden_size: Count = 1024
    intermediate_size: Count = 3072
    num_hidden_layers: Count = 8
    num_attention_heads: Count = 16
    num_key_value_heads: Count = 16
    head_dim: Count | None = None
    sliding_window: Several = 72
    """Positions that a layer attends to, including its own."""
    rope_theta: Positive = 10_000.0
    rms_norm_eps: Positive = 1e-5
    upsample_rates: Counts = (8, 5, 4, 3)
    upsampling_ratios: Counts = (2, 2)
    decoder_dim: Count = 1536
    hidden_act: Literal["silu"] = "silu"
    attention_bias: Literal[False] = False

    def __post_init__(self) -> None:
        if self.decoder_dim % 2 ** len(self.upsample_rates):
            raise ValueError(f"decoder_dim {self.decoder_dim} cannot be halved for each of upsample_rates")
        check_heads(self.num_attention_heads, self.num_key_value_heads, self.head_size)

    @property
    def head_size(self) -> int:
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def samples_per_frame(self) -> int:
        return prod(self.upsample_rates) * prod(self.upsampling_ratios)

    @property
    def past_positions(self) -> int:
        """Positions before a chunk that its first position attends to."""
        return self.sliding_window - 1


def check_heads(heads: int, kv_heads: int, head_size: int) -> None:
    """Raises ValueError for heads that the layers do not support."""
    if kv_heads != heads:
        raise ValueError(f"num_key_value_heads must be num_attention_heads, got {kv_heads} and {heads}")
    if head_size < 2 or head_size % 2:
        raise ValueError(f"head_dim must be even, got {head_size}")
