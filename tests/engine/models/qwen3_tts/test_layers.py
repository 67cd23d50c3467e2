"""The stack over the cache is causal attention over each row's own history, however that came in."""

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.models.qwen3_tts.config import StackConfig
from realtime_tts.engine.models.qwen3_tts.layers import Block, SlotCache, Span, Stack, qk_norm, rms_norm
from realtime_tts.engine.models.qwen3_tts.matrix import Matrix

CONFIG = StackConfig(
    hidden_size=12,
    intermediate_size=20,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=6,
    rope_theta=100.0,
    vocab_size=1,
    num_code_groups=2,
)
MAX_LEN = 12
CPU = torch.device("cpu")


def values(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Weights(NamedTuple):
    """Those of a block, each by itself."""

    input_norm: torch.Tensor
    qkv: torch.Tensor
    q_norm: torch.Tensor
    k_norm: torch.Tensor
    out: torch.Tensor
    post_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor

    @property
    def block(self) -> Block:
        return Block(
            self.input_norm,
            Matrix(self.qkv),
            qk_norm(CONFIG, self.q_norm, self.k_norm),
            Matrix(self.out),
            self.post_norm,
            Matrix(self.gate_up),
            Matrix(self.down),
        )


def make_weights() -> list[Weights]:
    hidden, inner, dim = CONFIG.hidden_size, CONFIG.intermediate_size, CONFIG.head_dim
    shapes: list[tuple[int, ...]] = [(hidden,), (8 * dim, hidden), (dim,), (dim,), (hidden, 4 * dim)]
    shapes += [(hidden,), (2 * inner, hidden), (hidden, inner)]
    return [Weights(*(values(*s, seed=100 * n + i) / s[-1] ** 0.5 for i, s in enumerate(shapes))) for n in range(2)]


BLOCKS = make_weights()
NORM = values(CONFIG.hidden_size, seed=7)
STACK = Stack(CONFIG, [weights.block for weights in BLOCKS], NORM)


def make_cache(slots: int = 4) -> SlotCache:
    return SlotCache(CONFIG, slots, MAX_LEN, CPU, torch.float64)


def run(
    cache: SlotCache,
    slots: Sequence[int],
    starts: Sequence[int],
    rows: Sequence[torch.Tensor],
    stack: Stack = STACK,
) -> list[torch.Tensor]:
    batch = torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=1e3)
    hidden = stack(batch, cache, cache.places(Span(slots, starts, [len(row) for row in rows])))
    return [out[: len(row)] for out, row in zip(hidden, rows, strict=True)]


def turned(vector: torch.Tensor, position: int) -> torch.Tensor:
    """RoPE, pair by pair: the first half's element turns with the second half's."""
    half = CONFIG.head_dim // 2
    out = vector.clone()
    for pair in range(half):
        angle = torch.tensor(position / CONFIG.rope_theta ** (2 * pair / CONFIG.head_dim))
        a, b = vector[pair], vector[pair + half]
        out[pair], out[pair + half] = a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()
    return out


def norm(vector: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return weight * vector / (vector.square().mean() + CONFIG.rms_norm_eps).sqrt()


def by_hand(row: torch.Tensor) -> torch.Tensor:
    """The same stack for one row without a cache, one position and one head at a time."""
    dim = CONFIG.head_dim
    for block in BLOCKS:
        joint = [(block.qkv @ norm(x, block.input_norm)).view(8, dim) for x in row]
        keys = [[turned(norm(j[4 + h], block.k_norm), p) for h in range(2)] for p, j in enumerate(joint)]
        after = []
        for position, x in enumerate(row):
            heads = []
            for head in range(4):
                query = turned(norm(joint[position][head], block.q_norm), position)
                scores = torch.stack([query @ keys[p][head // 2] for p in range(position + 1)]) / math.sqrt(dim)
                seen = torch.stack([joint[p][6 + head // 2] for p in range(position + 1)])
                heads.append(scores.softmax(-1) @ seen)
            x = x + block.out @ torch.cat(heads)
            gate, up = (block.gate_up @ norm(x, block.post_norm)).chunk(2)
            after.append(x + block.down @ (gate * gate.sigmoid() * up))
        row = torch.stack(after)
    return torch.stack([norm(x, NORM) for x in row])


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    # Norms and angles are computed in float32.
    return torch.allclose(a, b, rtol=0, atol=1e-5)


def test_it_is_what_the_formulas_say() -> None:
    row = values(7, CONFIG.hidden_size, seed=1)
    assert close(run(make_cache(), [2], [0], [row])[0], by_hand(row))


@settings(deadline=None, max_examples=40)
@given(
    lengths=st.lists(st.integers(1, MAX_LEN), min_size=1, max_size=4),
    order=st.permutations([0, 1, 2, 3]),
    cuts=st.lists(st.integers(1, 5), min_size=1, max_size=5),
)
def test_however_rows_come_in_each_is_as_if_alone_and_whole(
    lengths: list[int], order: list[int], cuts: list[int]
) -> None:
    rows = [values(n, CONFIG.hidden_size, seed=n + 50 * i) for i, n in enumerate(lengths)]
    cache, made, turn = make_cache(), [torch.zeros(0, CONFIG.hidden_size)] * len(rows), 0
    while waiting := [i for i, row in enumerate(rows) if len(made[i]) < len(row)]:
        starts = [len(made[i]) for i in waiting]
        parts = [rows[i][len(made[i]) : len(made[i]) + cuts[(turn + i) % len(cuts)]] for i in waiting]
        for i, out in zip(waiting, run(cache, [order[i] for i in waiting], starts, parts), strict=True):
            made[i] = torch.cat([made[i], out])
        turn += 1
    for row, out in zip(rows, made, strict=True):
        assert close(out, run(make_cache(1), [0], [0], [row])[0])


def test_what_fills_up_a_ragged_batch_at_the_caches_end_overwrites_nothing() -> None:
    full, short = values(MAX_LEN, CONFIG.hidden_size, seed=1), values(4, CONFIG.hidden_size, seed=2)
    cache = make_cache(2)
    run(cache, [0], [0], [full[:-1]])
    out = run(cache, [0, 1], [MAX_LEN - 1, 0], [full[-1:], short])
    assert close(out[0], by_hand(full)[-1:])
    assert close(out[1], by_hand(short))


def test_more_than_fits_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(AssertionError, match="do not fit"):
        run(make_cache(), [0], [MAX_LEN], [values(1, CONFIG.hidden_size, seed=1)])


def test_nothing_of_a_cleared_slot_is_left() -> None:
    cache = make_cache(2)
    broken = torch.full((5, CONFIG.hidden_size), torch.nan, dtype=torch.float64)
    row = values(3, CONFIG.hidden_size, seed=3)
    run(cache, [0, 1], [0, 0], [broken, row])
    cache.clear(0, 5)
    long = values(6, CONFIG.hidden_size, seed=4)
    out = run(cache, [0, 1], [0, 3], [row, long])
    assert close(out[0], by_hand(row))
    assert close(out[1], by_hand(torch.cat([row, long]))[3:])


@pytest.mark.parametrize(("slots", "side_by_side"), [((0, 1, 2), True), ((2,), True), ((1, 3), False), ((2, 1), False)])
def test_only_slots_side_by_side_are_a_slice(slots: tuple[int, ...], side_by_side: bool) -> None:
    places = make_cache().places(Span(slots, [0] * len(slots), [1] * len(slots)))
    assert torch.arange(4)[places.selection].tolist() == list(slots)
    assert isinstance(places.selection, slice) == side_by_side


def test_the_norm_is_computed_in_float32_for_half_precision() -> None:
    large = torch.full((4,), 300.0, dtype=torch.float16)
    assert torch.equal(rms_norm(large, torch.ones(4, dtype=torch.float16), 1e-6), torch.ones(4, dtype=torch.float16))


def test_compiled_it_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traced as torch.compile traces it, but without the minutes that its kernels take to build."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    compiled = Stack(CONFIG, [weights.block for weights in BLOCKS], NORM, compiled=True)
    row = values(6, CONFIG.hidden_size, seed=1)
    cache, parts = make_cache(), []
    for start, end in ((0, 3), (3, 4), (4, 5), (5, 6)):
        parts += run(cache, [1], [start], [row[start:end]], compiled)
    assert close(torch.cat(parts), by_hand(row))
