"""The estimate of memory equals what is allocated, and the published sizes are those of the published files."""

import pytest

pytest.importorskip("torch")

from pathlib import Path

import msgspec
import torch

from realtime_tts.engine.models.qwen3_omni.config import OmniConfig, read_config, require_speech
from realtime_tts.engine.models.qwen3_omni.memory import PUBLISHED_VALUES, checkpoint_values, omni_memory
from realtime_tts.engine.models.qwen3_omni.weights import PARTS
from tests.engine.models.qwen3_omni.make_checkpoint import shapes
from tests.engine.models.qwen3_omni.parts import MAX_LEN, OmniParts
from tests.engine.models.qwen3_omni.published import PUBLISHED

GIB = 1024**3


def test_the_published_sizes_have_the_published_number_of_values() -> None:
    counted = dict.fromkeys(PARTS, 0)
    for name, shape in shapes(PUBLISHED).items():
        (part,) = [part for part, prefixes in PARTS.items() if name.startswith(prefixes)]
        counted[part] += torch.empty(shape, device="meta").numel()
    assert counted == PUBLISHED_VALUES
    assert sum(counted.values()) == 35_259_818_545
    assert len(shapes(PUBLISHED)) == 28_010


def test_values_are_counted_from_the_headers(omni: Path) -> None:
    values = checkpoint_values(omni)
    assert sum(values.values()) == 6_468_697
    assert min(values.values()) > 0


def test_the_bytes_of_a_conversation_are_those_of_its_slots(omni: Path, omni_parts: OmniParts) -> None:
    config = read_config(omni)
    memory = omni_memory(config, checkpoint_values(omni), torch.float32, max_len=MAX_LEN, thinker_max_len=MAX_LEN)
    one, two = (_slot_bytes(omni_parts, slots) for slots in (1, 2))
    assert memory.thinker_bytes_per_slot == two[0] - one[0]
    assert memory.speech_bytes_per_slot == two[1] - one[1]
    assert require_speech(config).talker.accept_hidden_layer == 3


def _slot_bytes(parts: OmniParts, slots: int) -> tuple[int, int]:
    """The bytes of the tensors of a Thinker, and of a Talker and a decoder, that grow with the slots."""
    thinker, talker, decoder = parts.thinker(slots), parts.talker(slots), parts.decoder(slots)
    cache = talker._predictor._cache
    tensors = (talker._cache.keys, talker._cache.values, cache.keys, cache.values, talker._hidden, talker._frame)
    state = sum(view.numel() * 4 for view in decoder.arena.views.values())
    return (
        thinker._cache.keys.nbytes + thinker._cache.values.nbytes + thinker._seen.nbytes,
        sum(tensor.nbytes for tensor in tensors) + talker._seen.nbytes + state,
    )


def test_what_fits_on_a_card_is_what_is_left_beside_the_weights() -> None:
    config = _published_config()
    memory = omni_memory(config, PUBLISHED_VALUES, torch.bfloat16, max_len=4096, thinker_max_len=4096)
    assert memory.thinker_bytes_per_slot == pytest.approx(96 * 1024 * 4096, rel=0.01)
    assert (memory.thinker_weights_bytes + memory.speech_weights_bytes) / GIB == pytest.approx(66.1, abs=0.1)
    assert memory.slots(24 * GIB) == 0
    assert memory.slots(80 * GIB) > 8
    assert memory.slots(139 * GIB) > 64
    assert memory.speech_slots(16 * GIB) > 16
    assert memory.slots(30 * GIB, weights_loaded=True) > 0
    assert memory.thinker_slots(80 * GIB) > memory.slots(80 * GIB)


def _published_config() -> OmniConfig:
    return msgspec.convert(PUBLISHED, OmniConfig)
