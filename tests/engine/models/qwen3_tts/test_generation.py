"""The published sampling parameters are used, and invalid ones are rejected."""

import pytest

pytest.importorskip("torch")

from realtime_tts.engine.models.qwen3_tts.config import GenerationConfig
from realtime_tts.engine.models.qwen3_tts.generation import published_sampling


def test_published_sampling_can_be_greedy() -> None:
    sampling = published_sampling(GenerationConfig(do_sample=False, subtalker_dosample=False))
    assert sampling.talker.greedy
    assert sampling.predictor.greedy
    with pytest.raises(ValueError, match="top_p"):
        published_sampling(GenerationConfig(top_p=2))
