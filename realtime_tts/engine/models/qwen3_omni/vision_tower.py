"""Vision tower: the patches of an image to an embedding for each token, and more for the Thinker's first layers."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from realtime_tts.engine.models.qwen3.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3_omni.config import VisionTowerConfig
from realtime_tts.engine.models.qwen3_omni.image import MERGE, PATCH, Grid
from realtime_tts.engine.models.qwen3_omni.tower_layers import Affine, LayerNorm, attend

PREFIX = "thinker.visual."
LAYER_NORM_EPS = 1e-6
ROPE_THETA = 10_000.0
PATCHES_PER_TOKEN = MERGE**2


@dataclass(frozen=True, slots=True)
class Encoded:
    """An image: `embeddings` (tokens, hidden), and `deepstack` (levels, tokens, hidden), added after as many layers."""

    embeddings: torch.Tensor
    deepstack: torch.Tensor


@dataclass(frozen=True, slots=True)
class _Block:
    before_attention: LayerNorm
    qkv: Affine
    out: Affine
    before_mlp: LayerNorm
    expand: Affine
    project: Affine

    def __call__(self, x: torch.Tensor, heads: int, rope: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        query, key, value = self.qkv(self.before_attention(x)).view(len(x), 3, heads, -1).unbind(1)
        x = x + self.out(attend(_rotate(query, *rope), _rotate(key, *rope), value))
        return x + self.project(F.gelu(self.expand(self.before_mlp(x)), approximate="tanh"))


@dataclass(frozen=True, slots=True)
class _Merger:
    """Joins the four patches of a token.  A deepstack merger normalises them together, the last one each alone."""

    norm: LayerNorm
    first: Affine
    second: Affine
    joins_first: bool

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        joined = x.view(-1, PATCHES_PER_TOKEN * x.shape[1])
        normed = self.norm(joined) if self.joins_first else self.norm(x).view(joined.shape)
        return self.second(F.gelu(self.first(normed)))


@dataclass(frozen=True, slots=True)
class VisionTower:
    config: VisionTowerConfig
    patch: Affine
    positions: torch.Tensor
    """(side · side, width): learned for a square grid, and interpolated for the grid of an image."""
    blocks: tuple[_Block, ...]
    merger: _Merger
    deepstack_mergers: tuple[_Merger, ...]

    @torch.inference_mode()
    def __call__(self, patches: npt.NDArray[np.float32], grid: Grid) -> Encoded:
        rows, columns = patch_places(grid)
        x = self.patch(torch.from_numpy(patches).to(self.positions)) + self._positions(rows, columns, grid)
        rope = self._rope(rows, columns)
        deepstack: list[torch.Tensor] = []
        for index, block in enumerate(self.blocks):
            x = block(x, self.config.num_heads, rope)
            if index in self.config.deepstack_visual_indexes:
                deepstack.append(self.deepstack_mergers[len(deepstack)](x))
        return Encoded(self.merger(x), torch.stack(deepstack))

    def _positions(self, rows: torch.Tensor, columns: torch.Tensor, grid: Grid) -> torch.Tensor:
        """The learned positions at each patch, bilinear between the four around it; corners fall on corners."""
        side = self.config.grid_side
        found = torch.zeros(len(rows), self.positions.shape[1], dtype=torch.float32, device=self.positions.device)
        for row, row_weight in _neighbours(rows, MERGE * grid.rows, side):
            for column, column_weight in _neighbours(columns, MERGE * grid.columns, side):
                index = (row * side + column).to(self.positions.device)
                found += (row_weight * column_weight).to(found)[:, None] * self.positions[index]
        return found.to(self.positions.dtype)

    def _rope(self, rows: torch.Tensor, columns: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines (patches, 1, width of a head): half of the frequencies are of the row."""
        half = self.config.hidden_size // self.config.num_heads // 2
        rates = 1.0 / ROPE_THETA ** (torch.arange(0, half, 2).float() / half)
        angles = torch.cat([rows[:, None] * rates, columns[:, None] * rates], -1)
        angles = torch.cat([angles, angles], -1)[:, None].to(self.positions.device)
        return angles.cos(), angles.sin()


def patch_places(grid: Grid) -> tuple[torch.Tensor, torch.Tensor]:
    """The row and the column (patches,) of each patch, the four of a token one after the other."""
    shape = (grid.rows, grid.columns, MERGE, MERGE)
    rows = torch.arange(MERGE * grid.rows).view(grid.rows, 1, MERGE, 1).expand(shape)
    columns = torch.arange(MERGE * grid.columns).view(1, grid.columns, 1, MERGE).expand(shape)
    return rows.flatten(), columns.flatten()


def _neighbours(places: torch.Tensor, count: int, side: int) -> tuple[tuple[torch.Tensor, torch.Tensor], ...]:
    """The two learned places around each of `count` places, and their weights."""
    exact = torch.from_numpy(np.linspace(0, side - 1, count, dtype=np.float32))[places]
    below = exact.floor().long()
    share = exact - below
    return (below, 1 - share), ((below + 1).clamp(max=side - 1), share)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotates the halves of each head against each other, in float32 as the reference does."""
    wide = x.float()
    first, second = wide.chunk(2, -1)
    return (wide * cos + torch.cat([-second, first], -1) * sin).to(x.dtype)


def load_vision_tower(checkpoint: Checkpoint, config: VisionTowerConfig) -> VisionTower:
    """Raises ModelNotUsable."""
    width, joined = config.hidden_size, PATCHES_PER_TOKEN * config.hidden_size

    def affine(name: str, outputs: int, inputs: int) -> Affine:
        return Affine.load(checkpoint, f"{PREFIX}{name}", outputs, inputs)

    def norm(name: str, size: int = width) -> LayerNorm:
        return LayerNorm.load(checkpoint, f"{PREFIX}{name}", size, LAYER_NORM_EPS)

    def merger(name: str, joins_first: bool) -> _Merger:
        return _Merger(
            norm=norm(f"{name}.ln_q", joined if joins_first else width),
            first=affine(f"{name}.mlp.0", joined, joined),
            second=affine(f"{name}.mlp.2", config.out_hidden_size, joined),
            joins_first=joins_first,
        )

    patch = checkpoint.read(f"{PREFIX}patch_embed.proj.weight", (width, 3, config.temporal_patch_size, PATCH, PATCH))
    return VisionTower(
        config=config,
        patch=Affine(patch.flatten(1), checkpoint.read(f"{PREFIX}patch_embed.proj.bias", (width,))),
        positions=checkpoint.read(f"{PREFIX}pos_embed.weight", (config.num_position_embeddings, width)),
        blocks=tuple(
            _load_block(f"blocks.{n}.", width, config.intermediate_size, affine, norm) for n in range(config.depth)
        ),
        merger=merger("merger", joins_first=False),
        deepstack_mergers=tuple(
            merger(f"merger_list.{n}", joins_first=True) for n in range(len(config.deepstack_visual_indexes))
        ),
    )


def _load_block(
    name: str, width: int, inner: int, affine: Callable[[str, int, int], Affine], norm: Callable[[str], LayerNorm]
) -> _Block:
    return _Block(
        before_attention=norm(f"{name}norm1"),
        qkv=affine(f"{name}attn.qkv", 3 * width, width),
        out=affine(f"{name}attn.proj", width, width),
        before_mlp=norm(f"{name}norm2"),
        expand=affine(f"{name}mlp.linear_fc1", inner, width),
        project=affine(f"{name}mlp.linear_fc2", width, inner),
    )
