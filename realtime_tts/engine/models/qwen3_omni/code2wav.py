"""Layers of Qwen3-Omni's Code2Wav: codes to audio in chunks, equal to decoding the whole stream at once.

Its transposed convolutions are trimmed by their stride on both sides, so the reference gives 1920 n - 555 samples for n
frames: everything is 555 samples earlier.  Here a stream starts with these 555 samples (23 ms) as silence, so that each
chunk has exactly 1920 for each frame.  The reference's own `chunked_decode` loses 555 samples at every joint.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from realtime_tts.engine.models.qwen3.codec.config import DecoderConfig
from realtime_tts.engine.models.qwen3.codec.decoder import StartTrim, Trunk, trunk_state_shapes
from realtime_tts.engine.models.qwen3.codec.layers import StateDict, pop_tensor
from realtime_tts.engine.models.qwen3.codec.state import Carry

START_SILENCE_SAMPLES = 555


@dataclass(frozen=True, slots=True)
class DecoderWeights:
    """The decoder's layers, in their order."""

    config: DecoderConfig
    table: Tensor
    """[16 · 2048, hidden]: the embedding of each code; a frame's vector is the mean of its 16."""
    offsets: Tensor
    trunk: Trunk

    @classmethod
    def from_state(cls, config: DecoderConfig, state: StateDict) -> "DecoderWeights":
        books, size = config.num_quantizers, config.codebook_size
        table = pop_tensor(state, "code_embedding.weight", (books * size, config.hidden_size))
        return cls(config, table, torch.arange(books, device=table.device) * size, Trunk.from_state(config, state))

    @property
    def state_shapes(self) -> dict[str, tuple[int, ...]]:
        return trunk_state_shapes(self.config)

    def decode(self, codes: Tensor, carry: Carry) -> Tensor:
        """[B, n, 16] codes to [B, n · 1920] samples."""
        x = functional.embedding(codes + self.offsets, self.table).mean(2)
        x, age = self.trunk.transform(x, carry)
        start = StartTrim(0, (age > 0).to(x.dtype)[..., None])
        return self.trunk.synthesise(x.transpose(1, 2), carry, start)
