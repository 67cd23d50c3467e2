"""Layers of Code2Wav, the decoder of Qwen3-TTS: codes to audio in chunks, equal to decoding the whole stream at once.

Chunks of any size give what `decoder.forward` of the reference (PyPI `qwen-tts` 0.1.1) gives for the whole stream.  The
reference's own `decode` splits the stream into windows and decodes 25 frames of context again for each; that is
`Code2Wav.decode_windowed`, for comparison.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from realtime_tts.engine.models.qwen3.codec.decoder import Trunk, trunk_state_shapes
from realtime_tts.engine.models.qwen3.codec.layers import Conv, Linear, StateDict, pop_codebook, pop_tensor
from realtime_tts.engine.models.qwen3.codec.state import Carry
from realtime_tts.engine.models.qwen3_tts.codec_config import CodecDecoderConfig


@dataclass(frozen=True, slots=True)
class DecoderWeights:
    """The decoder's layers, in their order."""

    config: CodecDecoderConfig
    table: Tensor
    """[16 · 2048, 512]: the projected centroid of each code; a frame's vector is the sum of its 16."""
    offsets: Tensor
    pre_conv: Conv
    project_in: Linear
    project_out: Linear
    trunk: Trunk

    @classmethod
    def from_state(cls, config: CodecDecoderConfig, state: StateDict) -> "DecoderWeights":
        table = _codebook_table(config, state)
        latent, hidden = config.latent_dim, config.hidden_size
        return cls(
            config,
            table.flatten(0, 1),
            torch.arange(config.num_quantizers, device=table.device) * config.codebook_size,
            Conv.from_state(state, "pre_conv.conv", config.codebook_dim, latent, 3),
            Linear.from_state(state, "pre_transformer.input_proj", latent, hidden, bias=True),
            Linear.from_state(state, "pre_transformer.output_proj", hidden, latent, bias=True),
            Trunk.from_state(config, state),
        )

    @property
    def state_shapes(self) -> dict[str, tuple[int, ...]]:
        return state_shapes(self.config)

    def decode(self, codes: Tensor, carry: Carry) -> Tensor:
        """[B, n, 16] codes to [B, n · 1920] samples."""
        x = functional.embedding(codes + self.offsets, self.table).sum(2).transpose(1, 2)
        x = self.pre_conv(carry.extend("pre_conv", x)).transpose(1, 2)
        x, _age = self.trunk.transform(self.project_in(x), carry)
        return self.trunk.synthesise(self.project_out(x).transpose(1, 2), carry)


def _codebook_table(config: CodecDecoderConfig, state: StateDict) -> Tensor:
    """[16, 2048, 512]: the split quantizer's centroids times the 1×1 projections after them."""
    width, inner = config.codebook_dim, config.codebook_dim // 2
    tables = []
    for part, books in (("rvq_first", 1), ("rvq_rest", config.num_quantizers - 1)):
        key = f"quantizer.{part}"
        pop_tensor(state, f"{key}.input_proj.weight", (inner, width, 1))  # only an encoder would use it
        project = pop_tensor(state, f"{key}.output_proj.weight", (width, inner, 1))[:, :, 0]
        for n in range(books):
            book = f"{key}.vq.layers.{n}._codebook"
            centroids = pop_codebook(state, book, "embedding_sum", config.codebook_size, inner)
            tables.append(centroids @ project.T)
    return torch.stack(tables)


def state_shapes(config: CodecDecoderConfig) -> dict[str, tuple[int, ...]]:
    """The state of a stream, by the names under which the layers read it."""
    return {"pre_conv": (config.codebook_dim, 2)} | trunk_state_shapes(config)
