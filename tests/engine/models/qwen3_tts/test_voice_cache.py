"""The cache keeps the most recently used voices, and never exceeds its limit."""

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

torch = pytest.importorskip("torch")

from realtime_tts.engine.models.qwen3.layers import KVPrefix  # noqa: E402
from realtime_tts.engine.models.qwen3_tts.voice_cache import OVERHEAD_BYTES, Prefix, Voice, VoiceCache  # noqa: E402

KEYS = st.sampled_from("abcdef")
FLOATS = st.integers(0, 300) | st.integers(0, 2000)
LIMIT = 12_000


def voice(floats: int, kv_floats: int = 0) -> Voice:
    kept = prefix(kv_floats) if kv_floats else None
    return Voice(np.zeros((2, 16), np.int64), torch.zeros(8), torch.zeros(floats), kept)


def prefix(floats: int) -> Prefix:
    return Prefix("english", "hello", KVPrefix(torch.zeros(1, 1, floats, 1), torch.zeros(1, 1, floats, 1)))


class Cache(RuleBasedStateMachine):
    """Compares with an ordered dictionary that is reduced to the limit after every change."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = VoiceCache(LIMIT)
        self.model: OrderedDict[str, Voice] = OrderedDict()

    @rule(key=KEYS, floats=FLOATS, kv_floats=FLOATS)
    def put(self, key: str, floats: int, kv_floats: int) -> None:
        new = voice(floats, kv_floats)
        self.model.pop(key, None)
        fits = new.nbytes <= LIMIT
        assert self.cache.put(key, new) == fits
        if fits:
            self._model_put(key, new)

    @rule(key=KEYS, kv_floats=FLOATS)
    def extend(self, key: str, kv_floats: int) -> None:
        longer = prefix(kv_floats)
        old = self.model.get(key)
        new = None if old is None else Voice(old.codes, old.x_vector, old.decoder_state, longer)
        fits = new is not None and new.nbytes <= LIMIT
        assert self.cache.extend(key, longer) == fits
        if new is not None and fits:
            del self.model[key]
            self._model_put(key, new)

    def _model_put(self, key: str, new: Voice) -> None:
        self.model[key] = new
        while sum(kept.nbytes for kept in self.model.values()) > LIMIT:
            self.model.popitem(last=False)

    @rule(key=KEYS)
    def get(self, key: str) -> None:
        found = self.cache.get(key)
        if key not in self.model:
            assert found is None
            return
        self.model.move_to_end(key)
        assert found is not None
        assert found.decoder_state is self.model[key].decoder_state
        assert found.prefix is self.model[key].prefix

    @rule(key=KEYS)
    def discard(self, key: str) -> None:
        self.cache.discard(key)
        self.model.pop(key, None)

    @invariant()
    def the_same_voices_are_cached(self) -> None:
        assert [key for key in "abcdef" if key in self.cache] == sorted(self.model)
        assert len(self.cache) == len(self.model)
        assert self.cache.nbytes == sum(kept.nbytes for kept in self.model.values()) <= LIMIT


Cache.TestCase.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
TestCache = Cache.TestCase


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 5000), max_size=30), st.integers(0, 40_000))
def test_the_limit_is_never_exceeded(sizes: list[int], limit: int) -> None:
    cache = VoiceCache(limit)
    for key, floats in enumerate(sizes):
        cache.put(str(key), voice(floats))
        assert cache.nbytes <= limit
    assert cache.nbytes >= len(cache) * OVERHEAD_BYTES


def test_the_least_recently_used_voice_is_evicted_first() -> None:
    cache = VoiceCache(3 * voice(10).nbytes)
    for key in "abc":
        cache.put(key, voice(10))
    assert cache.get("a") is not None
    assert "b" in cache, "a lookup that does not count as use"
    cache.put("d", voice(10))
    assert [key for key in "abcd" if key in cache] == ["a", "c", "d"]


def test_the_limit_is_exact_to_the_byte() -> None:
    for spare_bytes, kept in ((0, ["a", "b"]), (-1, ["b"])):
        cache = VoiceCache(2 * voice(10).nbytes + spare_bytes)
        cache.put("a", voice(10))
        cache.put("b", voice(10))
        assert [key for key in "ab" if key in cache] == kept


def test_a_view_counts_as_the_whole_array() -> None:
    arena = torch.zeros(1000, 1000)
    nbytes = Voice(None, torch.zeros(8), arena[3]).nbytes
    assert nbytes >= arena.nbytes
    codes = np.zeros((5000, 16), np.int64)
    assert Voice(codes[:1], torch.zeros(8), None).nbytes >= codes.nbytes
    kept = Prefix(None, "hello", KVPrefix(arena[None, None, 1:2], arena[None, None, 2:3]))
    assert Voice(None, torch.zeros(8), None, kept).nbytes >= 2 * arena.nbytes


def test_a_voice_larger_than_the_cache_evicts_no_other() -> None:
    cache = VoiceCache(LIMIT)
    assert cache.put("small", voice(10))
    assert not cache.put("huge", voice(100_000))
    assert "small" in cache
    assert "huge" not in cache


def test_a_new_version_that_does_not_fit_removes_the_old_one() -> None:
    cache = VoiceCache(LIMIT)
    cache.put("voice", voice(10))
    assert not cache.put("voice", voice(100_000))
    assert cache.get("voice") is None
    assert cache.nbytes == 0


def test_a_prefix_that_does_not_fit_leaves_the_voice_unchanged() -> None:
    cache = VoiceCache(LIMIT)
    cache.put("voice", voice(10))
    assert not cache.extend("voice", prefix(100_000))
    kept = cache.get("voice")
    assert kept is not None
    assert kept.prefix is None


def test_a_negative_limit_is_rejected() -> None:
    with pytest.raises(ValueError, match="got -1"):
        VoiceCache(-1)
