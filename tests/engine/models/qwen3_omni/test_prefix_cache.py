"""A cached conversation serves those that begin with it, as far as both are equal."""

import pytest

pytest.importorskip("torch")

import numpy as np
import torch

from realtime_tts.engine.api import SpokenContext
from realtime_tts.engine.models.qwen3.layers import KVPrefix
from realtime_tts.engine.models.qwen3_omni.prefix_cache import PrefixCache

PAD = 9
POSITION_BYTES = 2 * 4 * 3 * 4
"""Of `kv`."""


def context(*ids: int, rows: list[float] | None = None, positions: np.ndarray | None = None) -> SpokenContext:
    key = f"{ids} {rows} {None if positions is None else positions.tolist()}"
    hidden = None if rows is None else np.array(rows, np.float32)[:, None]
    return SpokenContext(np.array(ids, np.int32), key, hidden, positions)


def kv(length: int) -> KVPrefix:
    numbers = torch.arange(length).float().view(1, 1, length, 1).expand(2, 2, length, 3).clone()
    return KVPrefix(numbers, -numbers)


def cache(limit_bytes: int = 10**6) -> PrefixCache:
    return PrefixCache(frozenset({PAD}), limit_bytes)


def shared(found: KVPrefix | None) -> int:
    return 0 if found is None else found.length


def test_the_longest_common_beginning_is_found() -> None:
    prefixes = cache()
    prefixes.put(context(1, 2, 3, 4), kv(4))
    prefixes.put(context(1, 2, 7), kv(3))
    for ids, length in (((1, 2, 3, 5), 3), ((1, 2, 7, 8), 3), ((1, 9), 1), ((5, 1), 0), ((1, 2, 3, 4), 4), ((), 0)):
        assert shared(prefixes.find(context(*ids))) == length, ids
    found = prefixes.find(context(1, 2, 3))
    assert found is not None
    assert found.keys[0, 0, :, 0].tolist() == [0, 1, 2]


def test_hidden_states_of_audio_must_be_equal() -> None:
    prefixes = cache()
    prefixes.put(context(1, PAD, PAD, 2, rows=[0.5, 0.6]), kv(4))
    assert shared(prefixes.find(context(1, PAD, PAD, 2, rows=[0.5, 0.6]))) == 4
    assert shared(prefixes.find(context(1, PAD, PAD, 2, rows=[0.5, 0.7]))) == 2
    assert shared(prefixes.find(context(1, PAD, PAD, PAD, rows=[0.5, 0.6, 0.7]))) == 3


def test_positions_must_be_equal() -> None:
    prefixes = cache()
    plain = np.arange(4, dtype=np.int32)[None].repeat(3, 0)
    bent = plain.copy()
    bent[1, 2] = 7
    prefixes.put(context(1, 2, 3, 4, positions=bent), kv(4))
    assert shared(prefixes.find(context(1, 2, 3, 4))) == 2
    assert shared(prefixes.find(context(1, 2, 3, 4, positions=bent))) == 4
    assert shared(prefixes.find(context(1, 2, 3, 4, positions=plain))) == 2


def test_a_conversation_replaces_those_that_it_continues() -> None:
    prefixes = cache()
    prefixes.put(context(1, 2), kv(2))
    prefixes.put(context(5), kv(1))
    prefixes.put(context(1, 2, 3), kv(3))
    assert len(prefixes) == 2
    assert context(1, 2, 3).key in prefixes
    assert context(1, 2).key not in prefixes


def test_the_least_recently_used_conversation_leaves_first() -> None:
    prefixes = cache(limit_bytes=2 * 3 * (2 * 2 * 3 * 4 * 2))
    prefixes.put(context(1, 1), kv(2))
    prefixes.put(context(2, 2), kv(2))
    assert len(prefixes) == 2
    prefixes.find(context(1, 1))
    prefixes.put(context(3, 3), kv(2))
    assert context(1, 1).key in prefixes
    assert context(2, 2).key not in prefixes
    prefixes.put(context(*range(100, 200)), kv(100))
    assert len(prefixes) == 2, "one larger than the whole cache is not cached, and evicts no other"
