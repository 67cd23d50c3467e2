"""Options are validated by name, and what is loaded has the published sampling and enough memory."""

import pytest

pytest.importorskip("torch")

from pathlib import Path
from typing import Any

import torch

from realtime_tts.engine.models.qwen3.sampling import SamplingParams
from realtime_tts.engine.models.qwen3_omni import MODEL
from realtime_tts.engine.models.qwen3_omni.config import GenerationConfig, read_config
from realtime_tts.engine.models.qwen3_omni.loading import (
    LoadOptions,
    _check_torch,
    check_directory,
    load_options,
    memory_of,
    published_sampling,
)
from realtime_tts.engine.models.qwen3_omni.weights import PARTS
from realtime_tts.errors import ModelNotUsable


def options_of(**options: Any) -> LoadOptions:
    complete = MODEL.complete_options({"device": "cpu"} | options)
    return load_options(**{name: value for name, value in complete.items() if name not in ("model_dir", "progress")})


def test_invalid_options_are_named() -> None:
    for options, message in (
        ({"device": "tpu"}, "device must be"),
        ({"thinker_device": "tpu"}, "device must be"),
        ({"dtype": "int8"}, "dtype must be"),
        ({"slots": 0}, "slots must be"),
        ({"max_len": 8}, "max_len must be"),
        ({"thinker_max_len": 8}, "thinker_max_len must be"),
        ({"audio_input": "yes"}, "audio_input must be"),
        ({"image_input": 5}, "image_input must be"),
        ({"predictor_kv": "slow"}, "predictor_kv must be"),
        ({"graphs": "yes"}, "graphs must be"),
        ({"threads": 0}, "threads must be"),
    ):
        with pytest.raises(ModelNotUsable, match=message):
            options_of(**options)


def test_an_older_torch_is_refused() -> None:
    for version in ("2.10.0+cpu", "2.13.0", "3.0.0a0"):
        _check_torch(version)
    for version in ("2.9.1+cu126", "1.13.1"):
        with pytest.raises(ModelNotUsable, match=r"torch 2\.10 or newer"):
            _check_torch(version)


def test_defaults_follow_the_device() -> None:
    options = options_of(audio_input=False)
    assert options.thinker_device == options.device
    assert options.dtype is torch.float32
    assert options.slots is None
    assert not options.graphs
    assert options.input_modalities == {"image"}


def test_the_published_sampling_is_that_of_the_reference() -> None:
    sampling = published_sampling(GenerationConfig())
    assert sampling.talker == SamplingParams(0.9, 50, 1.0)
    assert sampling.predictor == SamplingParams(1.0, 50, 0.8)
    assert sampling.repetition_penalty == 1.05
    greedy = published_sampling(GenerationConfig(talker_do_sample=False))
    assert greedy.talker.greedy
    assert greedy.predictor.greedy
    with pytest.raises(ModelNotUsable, match="top_p"):
        published_sampling(GenerationConfig(talker_top_p=2.0))


def test_a_directory_is_checked_without_its_weights(omni: Path) -> None:
    assert check_directory(omni, options_of()) == read_config(omni)
    with pytest.raises(ModelNotUsable, match="max_len: at most 4096, got 9000"):
        check_directory(omni, options_of(max_len=9000))


def test_a_tower_that_is_not_loaded_takes_no_memory(omni: Path) -> None:
    config = read_config(omni)
    whole = {part.name: part.bytes for part in memory_of(omni, config, options_of()).parts}
    less = {part.name: part.bytes for part in memory_of(omni, config, options_of(audio_input=False)).parts}
    assert whole.keys() == PARTS.keys()
    assert less == whole | {"audio tower": 0}
