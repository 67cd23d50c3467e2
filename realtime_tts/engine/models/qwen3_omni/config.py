"""Configuration files of a published Qwen3-Omni directory, read strictly and without importing torch.

The names differ between transformers 4, which the publisher used, and 5: `rope_theta` and `rope_scaling` became
`rope_parameters`, and the Talker's `num_experts` became `num_local_experts`.  Both are read.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec

from realtime_tts.engine.models.qwen3.codec.config import DecoderConfig
from realtime_tts.engine.models.qwen3.config import (
    CodeStackConfig,
    ExpertsConfig,
    StackConfig,
    TalkerStackConfig,
    read_json,
)
from realtime_tts.errors import ModelNotUsable

MODEL_TYPE = "qwen3_omni_moe"
INPUT_RATE_HZ = 16_000
SAMPLE_RATE_HZ = 24_000
SAMPLES_PER_FRAME = 1920

_T = TypeVar("_T")
Count = Annotated[int, msgspec.Meta(ge=1)]
TokenId = Annotated[int, msgspec.Meta(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeJson:
    """`rope_scaling` of transformers 4, or `rope_parameters` of 5."""

    rope_theta: float | None = None
    rope_type: Literal["default"] = "default"
    mrope_section: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StackJson:
    """A stack of blocks as a file spells it."""

    hidden_size: Count
    num_hidden_layers: Count
    num_attention_heads: Count
    num_key_value_heads: Count
    vocab_size: Count
    head_dim: Count | None = None
    intermediate_size: Count | None = None
    rms_norm_eps: float = 1e-6
    max_position_embeddings: Count = 32_768
    hidden_act: Literal["silu"] = "silu"
    attention_bias: Literal[False] = False
    use_sliding_window: Literal[False] = False
    tie_word_embeddings: Literal[False] = False
    rope_theta: float | None = None
    rope_scaling: RopeJson | None = None
    rope_parameters: RopeJson | None = None
    num_experts: Count | None = None
    num_local_experts: Count | None = None
    num_experts_per_tok: Count | None = None
    moe_intermediate_size: Count | None = None
    shared_expert_intermediate_size: Count | None = None
    norm_topk_prob: bool | None = None
    mlp_only_layers: tuple[()] | None = None
    """The published models have experts in every layer."""
    decoder_sparse_step: Literal[1] = 1

    @property
    def width(self) -> int:
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def rope(self) -> tuple[float, tuple[int, int, int] | None]:
        """The base of the frequencies, 1e6 by default, and their sections by axis."""
        spellings = [each for each in (self.rope_parameters, self.rope_scaling) if each is not None]
        bases = [self.rope_theta, *(each.rope_theta for each in spellings)]
        sections = [each.mrope_section for each in spellings]
        return next((base for base in bases if base is not None), 1e6), next(filter(None, sections), None)

    def experts(self, *, renormalised_by_default: bool) -> ExpertsConfig:
        count = self.num_experts or self.num_local_experts
        if count is None or self.num_experts_per_tok is None or self.moe_intermediate_size is None:
            raise ValueError("num_experts, num_experts_per_tok and moe_intermediate_size are required")
        renormalised = renormalised_by_default if self.norm_topk_prob is None else self.norm_topk_prob
        return ExpertsConfig(
            count=count,
            per_token=self.num_experts_per_tok,
            inner=self.moe_intermediate_size,
            renormalised=renormalised,
            shared_inner=self.shared_expert_intermediate_size,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictorJson(StackJson):
    num_code_groups: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioTowerConfig:
    """`audio_config`: mel to embeddings."""

    d_model: Count
    encoder_layers: Count
    encoder_attention_heads: Count
    encoder_ffn_dim: Count
    output_dim: Count
    downsample_hidden_size: Count
    num_mel_bins: Literal[128] = 128
    n_window: Literal[50] = 50
    n_window_infer: Count = 800
    max_source_positions: Count = 1500
    activation_function: Literal["gelu"] = "gelu"
    scale_embedding: Literal[False] = False

    def __post_init__(self) -> None:
        if self.d_model % self.encoder_attention_heads or self.d_model % 2:
            raise ValueError(f"{self.encoder_attention_heads} heads do not divide d_model {self.d_model}")
        if self.n_window_infer % self.chunk_frames:
            raise ValueError(f"n_window_infer must be a multiple of {self.chunk_frames}, got {self.n_window_infer}")

    @property
    def chunk_frames(self) -> int:
        """Mel frames that are convolved together: a second."""
        return 2 * self.n_window


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionTowerConfig:
    """`vision_config`: patches to embeddings."""

    depth: Count
    hidden_size: Count
    intermediate_size: Count
    num_heads: Count
    out_hidden_size: Count
    num_position_embeddings: Count
    deepstack_visual_indexes: tuple[int, ...]
    patch_size: Literal[16] = 16
    temporal_patch_size: Literal[2] = 2
    spatial_merge_size: Literal[2] = 2
    in_channels: Literal[3] = 3
    hidden_act: Literal["gelu_pytorch_tanh"] = "gelu_pytorch_tanh"

    def __post_init__(self) -> None:
        if self.hidden_size % self.num_heads or (self.hidden_size // self.num_heads) % 4:
            raise ValueError(f"{self.num_heads} heads of {self.hidden_size} values have no rows and columns")
        if self.grid_side**2 != self.num_position_embeddings:
            raise ValueError(f"num_position_embeddings {self.num_position_embeddings} is not a square")
        if any(not 0 <= index < self.depth for index in self.deepstack_visual_indexes):
            raise ValueError(f"deepstack_visual_indexes {self.deepstack_visual_indexes} are outside of {self.depth}")

    @property
    def grid_side(self) -> int:
        """Rows and columns of the learned positions."""
        return math.isqrt(self.num_position_embeddings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkerConfig:
    """`thinker_config`."""

    text_config: StackJson
    audio_config: AudioTowerConfig
    vision_config: VisionTowerConfig
    audio_token_id: TokenId
    image_token_id: TokenId
    video_token_id: TokenId
    audio_start_token_id: TokenId
    audio_end_token_id: TokenId
    vision_start_token_id: TokenId
    vision_end_token_id: TokenId

    def __post_init__(self) -> None:
        hidden = self.text_config.hidden_size
        if not hidden == self.audio_config.output_dim == self.vision_config.out_hidden_size:
            raise ValueError("audio_config or vision_config has another width than the text")
        if len(self.vision_config.deepstack_visual_indexes) > self.text_config.num_hidden_layers:
            raise ValueError("there are more deepstack_visual_indexes than layers")
        _ = self.stack  # its sizes are checked

    @property
    def stack(self) -> StackConfig:
        text = self.text_config
        rope_theta, sections = text.rope
        return StackConfig(
            hidden_size=text.hidden_size,
            intermediate_size=text.intermediate_size or text.hidden_size,
            num_hidden_layers=text.num_hidden_layers,
            num_attention_heads=text.num_attention_heads,
            num_key_value_heads=text.num_key_value_heads,
            head_dim=text.width,
            rms_norm_eps=text.rms_norm_eps,
            rope_theta=rope_theta,
            max_position_embeddings=text.max_position_embeddings,
            vocab_size=text.vocab_size,
            experts=text.experts(renormalised_by_default=True),
            rope_sections=sections or (24, 20, 20),
        )

    @property
    def pads(self) -> frozenset[int]:
        """The ids whose embeddings are those of audio, images and videos."""
        return frozenset({self.audio_token_id, self.image_token_id, self.video_token_id})


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkerConfig:
    """`talker_config`."""

    text_config: StackJson
    code_predictor_config: PredictorJson
    num_code_groups: Count
    thinker_hidden_size: Count
    accept_hidden_layer: Count
    codec_eos_token_id: TokenId
    codec_nothink_id: TokenId
    codec_think_bos_id: TokenId
    codec_think_eos_id: TokenId
    codec_pad_id: TokenId
    codec_bos_id: TokenId
    speaker_id: dict[str, TokenId]
    spatial_merge_size: Literal[2] = 2

    def __post_init__(self) -> None:
        tags = (self.codec_nothink_id, self.codec_think_bos_id, self.codec_think_eos_id, self.codec_pad_id)
        ids = (*tags, self.codec_bos_id, *self.speaker_id.values())
        if bad := [i for i in ids if i >= self.text_config.vocab_size]:
            raise ValueError(f"codec ids {bad} are outside the vocabulary")
        if not self.speaker_id:
            raise ValueError("speaker_id has no speaker")
        _ = self.stack  # its sizes are checked

    @property
    def stack(self) -> TalkerStackConfig:
        text, predictor = self.text_config, self.code_predictor_config
        rope_theta, sections = text.rope
        return TalkerStackConfig(
            hidden_size=text.hidden_size,
            intermediate_size=self.projection_size,
            num_hidden_layers=text.num_hidden_layers,
            num_attention_heads=text.num_attention_heads,
            num_key_value_heads=text.num_key_value_heads,
            head_dim=text.width,
            rms_norm_eps=text.rms_norm_eps,
            rope_theta=rope_theta,
            max_position_embeddings=text.max_position_embeddings,
            vocab_size=text.vocab_size,
            experts=text.experts(renormalised_by_default=False),
            rope_sections=sections or (24, 20, 20),
            num_code_groups=self.num_code_groups,
            codec_eos_token_id=self.codec_eos_token_id,
            code_predictor_config=CodeStackConfig(
                hidden_size=predictor.hidden_size,
                intermediate_size=predictor.intermediate_size or predictor.hidden_size,
                num_hidden_layers=predictor.num_hidden_layers,
                num_attention_heads=predictor.num_attention_heads,
                num_key_value_heads=predictor.num_key_value_heads,
                head_dim=predictor.width,
                rms_norm_eps=predictor.rms_norm_eps,
                rope_theta=predictor.rope[0],
                vocab_size=predictor.vocab_size,
                num_code_groups=predictor.num_code_groups,
            ),
        )

    @property
    def projection_size(self) -> int:
        """The inner width of the projections from the Thinker."""
        return self.text_config.intermediate_size or 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Code2WavConfig:
    """`code2wav_config`."""

    hidden_size: Count = 1024
    intermediate_size: Count = 3072
    num_hidden_layers: Count = 8
    num_attention_heads: Count = 16
    num_key_value_heads: Count = 16
    head_dim: Count | None = None
    codebook_size: Count = 2048
    num_quantizers: Annotated[int, msgspec.Meta(ge=2)] = 16
    sliding_window: Annotated[int, msgspec.Meta(ge=2)] = 72
    decoder_dim: Count = 1536
    upsample_rates: tuple[Count, ...] = (8, 5, 4, 3)
    upsampling_ratios: tuple[Count, ...] = (2, 2)
    rms_norm_eps: float = 1e-5
    rope_theta: float | None = None
    rope_parameters: RopeJson | None = None
    hidden_act: Literal["silu"] = "silu"
    attention_bias: Literal[False] = False

    def __post_init__(self) -> None:
        if self.decoder.samples_per_frame != SAMPLES_PER_FRAME:
            raise ValueError(f"a frame has {self.decoder.samples_per_frame} samples, not {SAMPLES_PER_FRAME}")

    @property
    def decoder(self) -> DecoderConfig:
        bases = (self.rope_theta, None if self.rope_parameters is None else self.rope_parameters.rope_theta)
        return DecoderConfig(
            codebook_size=self.codebook_size,
            num_quantizers=self.num_quantizers,
            latent_dim=self.hidden_size,
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_hidden_layers=self.num_hidden_layers,
            num_attention_heads=self.num_attention_heads,
            num_key_value_heads=self.num_key_value_heads,
            head_dim=self.head_dim,
            sliding_window=self.sliding_window,
            rope_theta=next((base for base in bases if base is not None), 1e4),
            rms_norm_eps=self.rms_norm_eps,
            upsample_rates=self.upsample_rates,
            upsampling_ratios=self.upsampling_ratios,
            decoder_dim=self.decoder_dim,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OmniConfig:
    """`config.json`.  Ids must be there: the defaults of the reference's classes are not those of any model."""

    model_type: Literal["qwen3_omni_moe"]
    thinker_config: ThinkerConfig
    talker_config: TalkerConfig | None = None
    code2wav_config: Code2WavConfig | None = None
    enable_audio_output: bool = True
    im_start_token_id: TokenId
    im_end_token_id: TokenId
    system_token_id: TokenId
    user_token_id: TokenId
    assistant_token_id: TokenId
    tts_pad_token_id: TokenId
    tts_bos_token_id: TokenId
    tts_eos_token_id: TokenId

    def __post_init__(self) -> None:
        tokens = (self.im_start_token_id, self.im_end_token_id, self.system_token_id, self.user_token_id)
        tts = (self.tts_pad_token_id, self.tts_bos_token_id, self.tts_eos_token_id)
        vocabulary = self.thinker_config.text_config.vocab_size
        ids = (*tokens, self.assistant_token_id, *tts, *self.thinker_config.pads)
        if bad := [token for token in ids if token >= vocabulary]:
            raise ValueError(f"text ids {bad} are outside the vocabulary of {vocabulary}")
        if self.enable_audio_output:
            self._check_speech()

    def _check_speech(self) -> None:
        if self.talker_config is None or self.code2wav_config is None:
            raise ValueError("enable_audio_output needs talker_config and code2wav_config")
        talker, text = self.talker_config, self.thinker_config.text_config
        if talker.thinker_hidden_size != text.hidden_size:
            raise ValueError(f"thinker_hidden_size {talker.thinker_hidden_size} is not that of the Thinker")
        # The reference takes the row before the features of the vision tower are added, and vLLM after it: they agree
        # behind the layers that add them.
        levels = len(self.thinker_config.vision_config.deepstack_visual_indexes)
        if not levels < talker.accept_hidden_layer < text.num_hidden_layers:
            raise ValueError(
                f"accept_hidden_layer must be between {levels} and {text.num_hidden_layers},"
                f" got {talker.accept_hidden_layer}"
            )
        if talker.num_code_groups != self.code2wav_config.num_quantizers:
            raise ValueError("the Talker's num_code_groups is not Code2Wav's num_quantizers")
        if talker.code_predictor_config.vocab_size > self.code2wav_config.codebook_size:
            raise ValueError("the Talker has more codes than Code2Wav")

    @property
    def speech(self) -> "SpeechConfig | None":
        """What speaks; None for a model that answers in text alone."""
        if not self.enable_audio_output or self.talker_config is None or self.code2wav_config is None:
            return None
        return SpeechConfig(self.talker_config, self.code2wav_config.decoder)


@dataclass(frozen=True, slots=True)
class SpeechConfig:
    """The parts that speak."""

    talker: TalkerConfig
    decoder: DecoderConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationConfig:
    """`generation_config.json`: how the Talker samples.  A value that the file omits has the reference's default.

    The Thinker samples as each request says, and greedily by default, as published.
    """

    talker_max_new_tokens: Count = 4096
    """327 s of speech."""
    talker_temperature: float = 0.9
    talker_top_k: int = 50
    talker_top_p: float = 1.0
    talker_repetition_penalty: float = 1.05
    talker_do_sample: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PreprocessorConfig:
    """`preprocessor_config.json`, one file for audio and images."""

    sampling_rate: Literal[16_000] = 16_000
    feature_size: Literal[128] = 128
    n_fft: Literal[400] = 400
    hop_length: Literal[160] = 160
    chunk_length: Count = 300
    """The longest audio, in seconds."""
    patch_size: Literal[16] = 16
    temporal_patch_size: Literal[2] = 2
    merge_size: Literal[2] = 2
    min_pixels: Count = 3136
    max_pixels: Count = 12_845_056
    image_mean: tuple[float, float, float] = field(default=(0.5, 0.5, 0.5))
    image_std: tuple[float, float, float] = field(default=(0.5, 0.5, 0.5))


def read_config(directory: Path) -> OmniConfig:
    """Reads `config.json`.  Raises ModelNotUsable, which names the invalid field."""
    return read_json(directory / "config.json", OmniConfig)


def read_generation_config(directory: Path) -> GenerationConfig:
    """Reads `generation_config.json`, which a directory may lack.  Raises ModelNotUsable."""
    return _read_optional(directory / "generation_config.json", GenerationConfig)


def read_preprocessor_config(directory: Path) -> PreprocessorConfig:
    """Reads `preprocessor_config.json`, which a directory may lack.  Raises ModelNotUsable."""
    return _read_optional(directory / "preprocessor_config.json", PreprocessorConfig)


def _read_optional(path: Path, shape: type[_T]) -> _T:
    return read_json(path, shape) if path.exists() else shape()


def require_speech(config: OmniConfig) -> SpeechConfig:
    """Raises ModelNotUsable for a model that answers in text alone."""
    if config.speech is None:
        raise ModelNotUsable("this model has no Talker (enable_audio_output is false): it answers in text alone")
    return config.speech
