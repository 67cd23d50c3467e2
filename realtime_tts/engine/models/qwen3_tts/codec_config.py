"""Configuration of the 12 Hz codec and of the speaker encoder, as in their published config files.

Read by `read_json`.  A field that a file omits has the default of the reference (PyPI `qwen-tts` 0.1.1), so that
a file means the same to both.
"""

from dataclasses import dataclass
from math import prod
from typing import Literal

from realtime_tts.engine.models.qwen3.codec.config import Count, Counts, DecoderConfig, Positive, Several, check_heads


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecDecoderConfig(DecoderConfig):
    """`decoder_config` of `speech_tokenizer/config.json`: codes to audio."""

    codebook_dim: Count

    def __post_init__(self) -> None:
        DecoderConfig.__post_init__(self)  # not super(): see CodeStackConfig
        if self.codebook_dim % 2:
            raise ValueError(f"codebook_dim must be even, got {self.codebook_dim}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecEncoderConfig:
    """`encoder_config` of `speech_tokenizer/config.json`: audio to codes.  It is that of Mimi without its decoder."""

    sampling_rate: Count = 24_000
    frame_rate: Positive = 12.5
    audio_channels: Literal[1] = 1
    hidden_size: Count = 512
    num_filters: Several = 64
    num_residual_layers: Count = 1
    upsampling_ratios: Counts = (8, 6, 5, 4)
    """In the decoder's order; the encoder uses them in reverse."""
    kernel_size: Count = 7
    last_kernel_size: Count = 3
    residual_kernel_size: Count = 3
    dilation_growth_rate: Count = 2
    compress: Count = 2
    codebook_size: Count = 2048
    codebook_dim: Count = 256
    num_quantizers: Several = 32
    num_semantic_quantizers: Literal[1] = 1
    vector_quantization_hidden_dimension: Count = 256
    num_hidden_layers: Count = 8
    intermediate_size: Count = 2048
    num_attention_heads: Count = 8
    num_key_value_heads: Count = 8
    head_dim: Count | None = None
    norm_eps: Positive = 1e-5
    rope_theta: Positive = 10_000.0
    hidden_act: Literal["gelu"] = "gelu"
    attention_bias: Literal[False] = False
    use_causal_conv: Literal[True] = True
    use_conv_shortcut: Literal[False] = False
    pad_mode: Literal["constant"] = "constant"

    def __post_init__(self) -> None:
        check_heads(self.num_attention_heads, self.num_key_value_heads, self.head_size)
        if not self.codebook_dim == self.vector_quantization_hidden_dimension != self.hidden_size:
            raise ValueError("codebook_dim must be vector_quantization_hidden_dimension, and not hidden_size")
        if self.num_filters % self.compress:
            raise ValueError(f"compress {self.compress} does not divide num_filters {self.num_filters}")
        # The encoder's last convolution halves the rate: its kernel has the size for a stride of 2.
        if self.samples_per_frame * self.frame_rate != self.sampling_rate:
            raise ValueError(f"frame_rate {self.frame_rate} does not fit upsampling_ratios {self.upsampling_ratios}")

    @property
    def head_size(self) -> int:
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def samples_per_frame(self) -> int:
        return 2 * prod(self.upsampling_ratios)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecConfig:
    """`speech_tokenizer/config.json`."""

    decoder_config: CodecDecoderConfig
    encoder_config: CodecEncoderConfig
    encoder_valid_num_quantizers: Count = 16
    """The number of the encoder's codebooks that are used."""
    input_sample_rate: Literal[24_000] = 24_000
    output_sample_rate: Literal[24_000] = 24_000

    def __post_init__(self) -> None:
        kept, read = self.encoder_valid_num_quantizers, self.decoder_config.num_quantizers
        if kept != read or kept > self.encoder_config.num_quantizers:
            raise ValueError(f"encoder_valid_num_quantizers {kept} is not the decoder's num_quantizers {read}")
        if self.encoder_config.codebook_size != self.decoder_config.codebook_size:
            raise ValueError("the codec's encoder and decoder differ in codebook_size")
        if self.encoder_config.samples_per_frame != self.decoder_config.samples_per_frame:
            raise ValueError("the codec's encoder and decoder differ in the samples per frame")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakerEncoderConfig:
    """`speaker_encoder_config` of the model's `config.json`."""

    enc_dim: Count = 1024
    """The size of the x-vector, equal to the Talker's hidden size."""
    mel_dim: Count = 128
    enc_channels: Counts = (512, 512, 512, 512, 1536)
    enc_kernel_sizes: Counts = (5, 3, 3, 3, 1)
    enc_dilations: Counts = (1, 2, 3, 4, 1)
    enc_attention_channels: Count = 128
    enc_res2net_scale: Several = 8
    enc_se_channels: Count = 128
    sample_rate: Literal[24_000] = 24_000

    def __post_init__(self) -> None:
        if not 3 <= len(self.enc_channels) == len(self.enc_kernel_sizes) == len(self.enc_dilations):
            raise ValueError("enc_channels, enc_kernel_sizes and enc_dilations must have one length of at least 3")
        *inner, last = self.enc_channels
        # Summed outputs must have one width, and the concatenation of all their total.
        if len(set(inner)) > 1 or last != sum(inner[1:]):
            raise ValueError(
                f"enc_channels must be equal, and the last the sum of all after the first: {inner}, {last}"
            )
        if inner[0] % self.enc_res2net_scale:
            raise ValueError(f"enc_res2net_scale {self.enc_res2net_scale} does not divide {inner[0]} channels")
