"""Embeddings of images equal the reference's, for any size."""

import pytest

pytest.importorskip("torch")

from pathlib import Path

import torch

from realtime_tts.engine.models.qwen3.checkpoint import Checkpoint
from realtime_tts.engine.models.qwen3_omni.config import PreprocessorConfig, read_config
from realtime_tts.engine.models.qwen3_omni.image import Grid, fit, patches
from realtime_tts.engine.models.qwen3_omni.vision_tower import load_vision_tower, patch_places
from tests.engine.models.qwen3_omni import inputs
from tests.engine.models.qwen3_omni.goldens import error


def test_embeddings_and_those_for_the_first_layers_equal_the_reference(omni: Path) -> None:
    checkpoint = Checkpoint(omni, torch.device("cpu"), torch.float32)
    tower = load_vision_tower(checkpoint, read_config(omni).thinker_config.vision_config)
    for number, (height, width) in enumerate(inputs.SIZES):
        grid = fit(height, width, PreprocessorConfig())
        encoded = tower(patches(inputs.picture(height, width, number), grid), grid)
        assert len(encoded.embeddings) == grid.tokens
        assert error(encoded.embeddings, f"image_{number}/embeddings") <= 1e-4, (height, width)
        assert error(encoded.deepstack, f"image_{number}/deepstack") <= 1e-4, (height, width)


def test_the_four_patches_of_a_token_follow_one_another() -> None:
    rows, columns = patch_places(Grid(1, 2))
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == [
        *((0, 0), (0, 1), (1, 0), (1, 1)),
        *((0, 2), (0, 3), (1, 2), (1, 3)),
    ]
