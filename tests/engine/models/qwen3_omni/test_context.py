"""The Talker's inputs equal the reference's."""

import pytest

pytest.importorskip("torch")

from dataclasses import replace

import numpy as np
import torch

from realtime_tts.engine.models.qwen3_omni.context import ANSWER_POSITIONS, rows_of_tensor, rows_to_tensor
from realtime_tts.errors import UnknownVoice
from tests.engine.models.qwen3_omni.goldens import error, golden
from tests.engine.models.qwen3_omni.inputs import CONVERSATIONS
from tests.engine.models.qwen3_omni.parts import OmniParts, turns


def test_inputs_and_the_text_after_them_equal_the_reference(omni_parts: OmniParts) -> None:
    for name in CONVERSATIONS:
        context = omni_parts.chat.prompt(turns(name), spoken=True).context
        rows = golden(f"{name}/rows").astype(np.float32)
        # The reference has no embedding of the token that was drawn last.
        first, *others = golden(f"{name}/tokens").tolist()[:-1]
        inputs = omni_parts.inputs
        read = inputs.context(replace(context, rows=rows if len(rows) else None))
        start = inputs.answer_start(first, "Ethan")
        assert len(start) == ANSWER_POSITIONS
        assert context.ids.tolist() == golden(f"{name}/talker_ids").tolist()[:-ANSWER_POSITIONS], name
        assert error(torch.cat([read, start]), f"{name}/talker_inputs") <= 1e-5, name
        assert error(inputs.more_text(others, last=True), f"{name}/trailing") <= 1e-5, name


def test_rows_cross_as_float32_or_as_the_bits_of_bfloat16() -> None:
    values = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    for dtype, kind in ((torch.float32, np.float32), (torch.bfloat16, np.uint16), (torch.float16, np.uint16)):
        rows = rows_of_tensor(values.to(dtype))
        assert rows.dtype == kind
        assert torch.allclose(rows_to_tensor(rows).float(), values, atol=0.02)


def test_an_unknown_voice_is_refused_with_those_that_exist(omni_parts: OmniParts) -> None:
    assert omni_parts.inputs.speaker("Aiden") == 2303
    with pytest.raises(UnknownVoice, match="chelsie, ethan, aiden"):
        omni_parts.inputs.speaker("vivian")
