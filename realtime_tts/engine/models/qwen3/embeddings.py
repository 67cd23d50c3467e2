"""Inputs of the Talker: tables of text and codes, and the prompts that are made of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from realtime_tts.engine.models.qwen3.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class Prompt:
    """`embeddings` (t, hidden) precede the first frame; one of `trailing` (r, hidden) is fed in per later frame."""

    embeddings: torch.Tensor
    trailing: torch.Tensor
    text_complete: bool = True
    prefix_length: int = 0
    """The number of `embeddings` before the text has an effect: the longest prefix that is the same for every text of
    one voice, language and layout.  Always fewer than all."""
    complete: bool = True
    """False while more positions precede the first frame, by `Talker.append_prompt`."""
    positions: torch.Tensor | None = None
    """(3, t): the rotary positions where they are not 0, 1, 2, …: after an image the three axes differ."""


@dataclass(frozen=True, slots=True)
class Projection:
    """Two layers with SiLU between them, weight and bias each: to the Talker's width."""

    first: tuple[torch.Tensor, torch.Tensor]
    second: tuple[torch.Tensor, torch.Tensor]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(F.silu(F.linear(x, *self.first)), *self.second)


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Tables that map text and codes to the Talker's inputs."""

    text_table: torch.Tensor
    projection: Projection
    """From the width of text embeddings to the Talker's."""
    codec_table: torch.Tensor
    """Code 0, tags, languages and speakers."""
    group_tables: tuple[torch.Tensor, ...]
    """Codes 1 to 15."""

    def text(self, ids: Sequence[int]) -> torch.Tensor:
        """(len(ids), hidden)"""
        return self.projection(F.embedding(self._index(ids), self.text_table))

    def codec(self, ids: Sequence[int]) -> torch.Tensor:
        """(len(ids), hidden)"""
        return F.embedding(self._index(ids), self.codec_table)

    def frames(self, codes: npt.NDArray[np.int64]) -> torch.Tensor:
        """The sum of a frame's code embeddings: (n, 16) -> (n, hidden)."""
        columns = torch.from_numpy(codes.astype(np.int64)).to(self.codec_table.device).unbind(1)
        tables = (self.codec_table, *self.group_tables)
        return torch.stack([F.embedding(c, t) for c, t in zip(columns, tables, strict=True)], 1).sum(1)

    def _index(self, ids: Sequence[int]) -> torch.Tensor:
        return torch.tensor(ids, dtype=torch.long, device=self.codec_table.device)


def load_projection(checkpoint: Checkpoint, name: str, inputs: int, inner: int, outputs: int) -> Projection:
    """Reads `linear_fc1` and `linear_fc2` under `name`.  Raises ModelNotUsable."""

    def layer(part: str, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
        weight = checkpoint.read(f"{name}.{part}.weight", (rows, columns))
        return weight, checkpoint.read(f"{name}.{part}.bias", (rows,))

    return Projection(layer("linear_fc1", inner, inputs), layer("linear_fc2", outputs, inner))
