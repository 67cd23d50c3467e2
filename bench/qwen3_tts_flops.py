"""Floating point operations of Code2Wav per frame, with state and in windows."""

from realtime_tts.engine.models.qwen3.codec.decoder import DILATIONS
from realtime_tts.engine.models.qwen3_tts.codec_config import CodecDecoderConfig


def flops_per_frame(config: CodecDecoderConfig, chunk_frames: int, context_frames: int = 0) -> float:
    """Floating point operations per new frame; a multiply and an add count as two, and activations are not counted.

    `context_frames` are decoded again for every chunk, as in a decoder without state.
    """
    frames = chunk_frames + context_frames
    inner = config.num_attention_heads * config.head_size
    keys = config.past_positions + frames
    layer = config.hidden_size * (4 * inner + 3 * config.intermediate_size) + 2 * keys * inner
    latent = config.latent_dim
    products = 3 * config.codebook_dim * latent + 2 * latent * config.hidden_size + config.num_hidden_layers * layer
    steps = 1
    for rate in config.upsampling_ratios:
        products += steps * rate * latent * latent  # kernel = stride: one tap per output
        steps *= rate
        products += steps * (7 * latent + 8 * latent * latent)
    products += steps * 7 * latent * config.decoder_dim
    channels = config.decoder_dim
    for rate in config.upsample_rates:
        half = channels // 2
        steps *= rate
        products += steps * (2 * channels * half + len(DILATIONS) * 8 * half * half)
        channels = half
    products += steps * 7 * channels
    return 2.0 * products * frames / chunk_frames
