"""Audio and images are encoded once, and found again in a prompt."""

import pytest

pytest.importorskip("torch")

import torch

from realtime_tts.engine.api import AudioPart, ImagePart
from realtime_tts.engine.models.qwen3_omni.config import PreprocessorConfig
from realtime_tts.engine.models.qwen3_omni.image import Grid
from realtime_tts.engine.models.qwen3_omni.media import MediaEncoder, content_keys, items_of, stacked_deepstack
from tests.engine.models.qwen3_omni.inputs import picture, speech
from tests.engine.models.qwen3_omni.parts import OmniParts


def encoder(parts: OmniParts, limit_bytes: int) -> MediaEncoder:
    return MediaEncoder(parts.weights.audio_tower, parts.weights.vision_tower, PreprocessorConfig(), limit_bytes)


def test_the_same_content_is_encoded_once(omni_parts: OmniParts) -> None:
    encode = encoder(omni_parts, 10**6)
    clip, image = AudioPart(speech(1.0), "k"), ImagePart(picture(64, 64), "k")
    assert encode(clip) is encode(clip)
    assert encode(image) is encode(image)
    assert encode(clip) is not encode(image), "the same key of another kind is other content"


def test_results_beyond_the_limit_are_forgotten(omni_parts: OmniParts) -> None:
    first, second = AudioPart(speech(1.0), "first"), AudioPart(speech(1.0), "second")
    size = encoder(omni_parts, 10**6)(first).embeddings.nbytes
    encode = encoder(omni_parts, size)
    kept = encode(first)
    assert encode(first) is kept
    encode(second)
    assert encode(first) is not kept


def test_items_are_the_runs_of_pads_in_order(omni_parts: OmniParts) -> None:
    prompt, thinker = omni_parts.prompt("mixed"), omni_parts.config.thinker_config
    items = items_of(prompt, thinker)
    assert [type(item.part) for item in items] == [ImagePart, AudioPart, AudioPart, ImagePart]
    pads = {thinker.audio_token_id, thinker.image_token_id}
    for item in items:
        assert {prompt.ids[n] for n in range(item.start, item.end)} <= pads
    assert sum(item.end - item.start for item in items) == sum(token in pads for token in prompt.ids)
    keys = content_keys(prompt.ids, items)
    assert len(set(keys[items[1].start : items[1].end])) == items[1].end - items[1].start
    assert omni_parts.encoder.grid(items[0].part) == Grid(2, 2)
    assert omni_parts.encoder.grid(items[1].part) is None


def test_features_for_the_first_layers_are_zero_outside_of_images() -> None:
    like = torch.zeros(5, 2)
    assert stacked_deepstack([(0, torch.empty(0, 3, 2))], 5, like) == ()
    first, second = stacked_deepstack([(1, torch.ones(2, 2, 2)), (4, torch.empty(0, 1, 2))], 5, like)
    for level in (first, second):
        assert level[0, :, 0].tolist() == [0, 1, 1, 0, 0]
