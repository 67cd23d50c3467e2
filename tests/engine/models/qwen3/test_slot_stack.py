"""A captured step equals one that is not captured, and changes no other slot."""

import pytest

pytest.importorskip("torch")

import torch

from realtime_tts.engine.models.qwen3.layers import SlotCache
from realtime_tts.engine.models.qwen3.slot_stack import SlotStack
from tests.engine.models.qwen3.test_layers import CONFIG, STACK, values

SLOTS = 5


def prepared() -> tuple[SlotCache, SlotStack]:
    """A cache whose slots all have two positions of random content."""
    cache = SlotCache(CONFIG, SLOTS, 12, torch.device("cpu"), torch.float64)
    cache.keys[:, :, :, :2] = values(*cache.keys[:, :, :, :2].shape, seed=1)
    cache.values[:, :, :, :2] = values(*cache.values[:, :, :, :2].shape, seed=2)
    return cache, SlotStack(STACK, cache, SLOTS)


def test_captured_steps_equal_others_and_leave_idle_slots_unchanged() -> None:
    for slots in ([0], [0, 1, 2], [1, 3], [4], [0, 1, 2, 3, 4]):
        inputs = values(SLOTS, CONFIG.hidden_size, seed=3)
        cache, plain = prepared()
        batch = plain.batch(slots)
        assert batch.order is batch.slots
        expected = plain.step(batch, inputs[slots], [2] * len(slots), [0] * len(slots))
        captured_cache, captured = prepared()
        before = captured_cache.keys.clone()
        for rows in captured.bucket_sizes:
            captured.capture(rows, inputs[:rows, None])
        captured.end_capture()
        captured_cache.keys.copy_(before)
        captured_cache.values.copy_(prepared()[0].values)
        batch = captured.batch(slots)
        past = [2 if slot in slots else 0 for slot in batch.order]
        found = captured.step(batch, inputs[batch.order_index], past, [0] * len(past))[batch.rows]
        assert torch.allclose(found, expected, atol=1e-6), slots
        assert torch.allclose(captured_cache.keys[:, :, :, :12], cache.keys[:, :, :, :12], atol=1e-6), slots


def test_bucket_sizes_double_up_to_all_slots() -> None:
    assert prepared()[1].bucket_sizes == (1, 2, 4, 5)


def test_an_offset_changes_the_rotary_positions() -> None:
    inputs = values(1, CONFIG.hidden_size, seed=4)
    made = []
    for offset in (0, -1):
        _cache, stack = prepared()
        made.append(stack.step(stack.batch([0]), inputs, [2], [offset]))
    assert not torch.allclose(made[0], made[1], atol=1e-3)
