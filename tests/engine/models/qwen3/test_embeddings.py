"""Embeddings of a tiny model: text is projected, and a frame is the sum of its codes."""

import pytest

pytest.importorskip("torch")

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from tests.engine.models.qwen3_tts.tiny import GetTiny


def test_text_is_projected_by_two_layers(tiny: GetTiny) -> None:
    embeddings = tiny("shallow").weights.embeddings
    (first, first_bias), (second, second_bias) = embeddings.projection.first, embeddings.projection.second
    row = embeddings.text_table[5]
    expected = second @ F.silu(first @ row + first_bias) + second_bias
    assert torch.allclose(embeddings.text([5, 6])[0], expected, atol=1e-5)


def test_a_frame_is_the_sum_of_the_embeddings_of_its_codes(tiny: GetTiny) -> None:
    embeddings = tiny("shallow").weights.embeddings
    codes = np.arange(32).reshape(2, 16)
    tables = (embeddings.codec_table, *embeddings.group_tables)
    expected = torch.stack([table[codes[1, group]] for group, table in enumerate(tables)]).sum(0)
    assert torch.allclose(embeddings.frames(codes)[1], expected, atol=1e-5)
    assert torch.equal(embeddings.codec([3])[0], embeddings.codec_table[3])
