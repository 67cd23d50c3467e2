"""The stack over the cache equals causal attention over each row's own positions."""

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.models.qwen3.config import StackConfig
from realtime_tts.engine.models.qwen3.feed_forward import Dense
from realtime_tts.engine.models.qwen3.layers import Block, SlotCache, Span, Stack, qk_norm, rms_norm
from realtime_tts.engine.models.qwen3.linear import PackedLinear

CONFIG = StackConfig(
    hidden_size=12,
    intermediate_size=20,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=6,
    rope_theta=100.0,
    vocab_size=1,
)
MAX_LEN = 12
CPU = torch.device("cpu")


def values(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Weights(NamedTuple):
    """The weights of a block, one by one."""

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
            PackedLinear(self.qkv),
            qk_norm(CONFIG, self.q_norm, self.k_norm),
            PackedLinear(self.out),
            self.post_norm,
            Dense(PackedLinear(self.gate_up), PackedLinear(self.down)),
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
    past: Sequence[int],
    rows: Sequence[torch.Tensor],
    stack: Stack = STACK,
) -> list[torch.Tensor]:
    batch = torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=1e3)
    hidden = stack(batch, cache, cache.index(Span(slots, past, [len(row) for row in rows])))
    return [out[: len(row)] for out, row in zip(hidden, rows, strict=True)]


def rotated(vector: torch.Tensor, position: int) -> torch.Tensor:
    """RoPE, pair by pair: each element of the first half rotates with that of the second half."""
    half = CONFIG.head_dim // 2
    out = vector.clone()
    for pair in range(half):
        angle = torch.tensor(position / CONFIG.rope_theta ** (2 * pair / CONFIG.head_dim))
        a, b = vector[pair], vector[pair + half]
        out[pair], out[pair + half] = a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()
    return out


def norm(vector: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return weight * vector / (vector.square().mean() + CONFIG.rms_norm_eps).sqrt()


def reference(row: torch.Tensor) -> torch.Tensor:
    """The same stack for one row without a cache, one position and one head at a time."""
    dim = CONFIG.head_dim
    for block in BLOCKS:
        joint = [(block.qkv @ norm(x, block.input_norm)).view(8, dim) for x in row]
        keys = [[rotated(norm(j[4 + h], block.k_norm), p) for h in range(2)] for p, j in enumerate(joint)]
        after = []
        for position, x in enumerate(row):
            heads = []
            for head in range(4):
                query = rotated(norm(joint[position][head], block.q_norm), position)
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


def test_outputs_equal_the_formulas() -> None:
    row = values(7, CONFIG.hidden_size, seed=1)
    assert close(run(make_cache(), [2], [0], [row])[0], reference(row))


@settings(deadline=None, max_examples=15)
@given(
    lengths=st.lists(st.integers(1, MAX_LEN), min_size=1, max_size=4),
    order=st.permutations([0, 1, 2, 3]),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=5),
)
def test_rows_in_chunks_and_batches_equal_each_row_alone(
    lengths: list[int], order: list[int], sizes: list[int]
) -> None:
    rows = [values(n, CONFIG.hidden_size, seed=n + 50 * i) for i, n in enumerate(lengths)]
    cache, outputs, step = make_cache(), [torch.zeros(0, CONFIG.hidden_size)] * len(rows), 0
    while waiting := [i for i, row in enumerate(rows) if len(outputs[i]) < len(row)]:
        past = [len(outputs[i]) for i in waiting]
        parts = [rows[i][len(outputs[i]) : len(outputs[i]) + sizes[(step + i) % len(sizes)]] for i in waiting]
        for i, out in zip(waiting, run(cache, [order[i] for i in waiting], past, parts), strict=True):
            outputs[i] = torch.cat([outputs[i], out])
        step += 1
    for row, out in zip(rows, outputs, strict=True):
        assert close(out, run(make_cache(1), [0], [0], [row])[0])


def test_the_padding_of_a_ragged_batch_overwrites_nothing() -> None:
    full, short = values(MAX_LEN, CONFIG.hidden_size, seed=1), values(4, CONFIG.hidden_size, seed=2)
    cache = make_cache(2)
    run(cache, [0], [0], [full[:-1]])
    out = run(cache, [0, 1], [MAX_LEN - 1, 0], [full[-1:], short])
    assert close(out[0], reference(full)[-1:])
    assert close(out[1], reference(short))


def test_more_positions_than_fit_fail_an_assertion() -> None:
    with pytest.raises(AssertionError, match="do not fit"):
        run(make_cache(), [0], [MAX_LEN], [values(1, CONFIG.hidden_size, seed=1)])


def test_a_cleared_slot_affects_no_later_row() -> None:
    cache = make_cache(2)
    broken = torch.full((5, CONFIG.hidden_size), torch.nan, dtype=torch.float64)
    row = values(3, CONFIG.hidden_size, seed=3)
    run(cache, [0, 1], [0, 0], [broken, row])
    cache.clear(0, 5)
    long = values(6, CONFIG.hidden_size, seed=4)
    out = run(cache, [0, 1], [0, 3], [row, long])
    assert close(out[0], reference(row))
    assert close(out[1], reference(torch.cat([row, long]))[3:])


def test_only_contiguous_slots_are_a_slice() -> None:
    for slots, contiguous in (((0, 1, 2), True), ((2,), True), ((1, 3), False), ((2, 1), False)):
        index = make_cache().index(Span(slots, [0] * len(slots), [1] * len(slots)))
        assert torch.arange(4)[index.selection].tolist() == list(slots)
        assert isinstance(index.selection, slice) == contiguous


def test_the_norm_is_computed_in_float32_for_half_precision() -> None:
    large = torch.full((4,), 300.0, dtype=torch.float16)
    assert torch.equal(rms_norm(large, torch.ones(4, dtype=torch.float16), 1e-6), torch.ones(4, dtype=torch.float16))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")
def test_a_compiled_stack_gives_the_same_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traced as by torch.compile, but without the minutes that building its kernels takes."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    compiled = Stack(CONFIG, [weights.block for weights in BLOCKS], NORM, compiled=True)
    row = values(6, CONFIG.hidden_size, seed=1)
    cache, parts = make_cache(), []
    for start, end in ((0, 3), (3, 4), (4, 5), (5, 6)):
        parts += run(cache, [1], [start], [row[start:end]], compiled)
    assert close(torch.cat(parts), reference(row))
