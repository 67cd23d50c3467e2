"""Sizes of stacks, and the reading of published JSON files, strictly and without importing torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from realtime_tts.errors import ModelNotUsable

CONTROL_IDS = 1024
"""The last ids of the Talker's vocabulary are not audio codes: tags, languages, speakers, and the end."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertsConfig:
    """A mixture of experts in place of the dense feed-forward layers."""

    count: int
    per_token: int
    """The number of experts that a token uses."""
    inner: int
    """The intermediate size of an expert."""
    renormalised: bool
    """Whether the chosen experts' probabilities are scaled to a sum of 1."""
    shared_inner: int | None = None
    """The intermediate size of the expert that every token uses; None without one."""

    def __post_init__(self) -> None:
        if not 1 <= self.per_token <= self.count or self.inner < 1 or (self.shared_inner or 1) < 1:
            raise ValueError(f"{self.per_token} of {self.count} experts of size {self.inner} cannot be used")


@dataclass(frozen=True, slots=True, kw_only=True)
class StackConfig:
    """A stack of Qwen3 blocks.  A value that a published file omits has the reference's default."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int = 128
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10_000.0
    max_position_embeddings: int = 32_768
    hidden_act: Literal["silu"] = "silu"
    attention_bias: bool = False
    use_sliding_window: bool = False
    vocab_size: int
    experts: ExpertsConfig | None = None
    rope_sections: tuple[int, int, int] | None = None
    """The frequencies of time, height and width, interleaved; None if the three axes are always equal."""

    def __post_init__(self) -> None:
        sizes = (self.hidden_size, self.intermediate_size, self.num_hidden_layers, self.head_dim, self.vocab_size)
        if min(sizes) < 1 or self.num_key_value_heads < 1:
            raise ValueError("sizes must be positive")
        if self.num_attention_heads < 1 or self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(f"{self.num_attention_heads} heads cannot share {self.num_key_value_heads} kv heads")
        if self.head_dim % 2:
            raise ValueError(f"head_dim must be even, got {self.head_dim}")
        if self.attention_bias or self.use_sliding_window:
            raise ValueError("attention with a bias or a sliding window is not supported")
        if not (self.rms_norm_eps > 0 and self.rope_theta > 0):
            raise ValueError("rms_norm_eps and rope_theta must be positive")
        if self.rope_sections is not None and sum(self.rope_sections) != self.head_dim // 2:
            raise ValueError(f"{self.rope_sections} frequencies are not the {self.head_dim // 2} of a head")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeStackConfig(StackConfig):
    """A stack whose frames have `num_code_groups` codes."""

    num_code_groups: int

    def __post_init__(self) -> None:
        # Not super(): a dataclass with slots is a new class, and the form without arguments refers to the old one.
        StackConfig.__post_init__(self)
        if self.num_code_groups < 2:
            raise ValueError("num_code_groups must be at least 2")


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkerStackConfig(CodeStackConfig):
    """A Talker: its stack, and that of its code predictor."""

    code_predictor_config: CodeStackConfig
    codec_eos_token_id: int

    def __post_init__(self) -> None:
        CodeStackConfig.__post_init__(self)
        if self.num_code_groups != self.code_predictor_config.num_code_groups:
            raise ValueError("the Talker and its code predictor differ in num_code_groups")
        if not 0 < self.vocab_size - CONTROL_IDS <= self.code_predictor_config.vocab_size:
            raise ValueError(f"vocab_size {self.vocab_size} leaves no codes, or more than the code predictor has")
        if not self.vocab_size - CONTROL_IDS <= self.codec_eos_token_id < self.vocab_size:
            raise ValueError(f"codec_eos_token_id {self.codec_eos_token_id} is not one of the control ids")


def read_json(path: Path, shape: type[_T]) -> _T:
    """Reads a JSON file into a typed value, without its unknown fields.  Raises ModelNotUsable."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=shape)
    except OSError as error:
        raise ModelNotUsable(f"{path} cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModelNotUsable(f"{path} is not valid: {error}") from error
