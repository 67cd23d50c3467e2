"""Buckets and the way without CUDA; capture and replay themselves need a GPU, and were not run here."""

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch import Tensor  # noqa: E402

from realtime_tts.engine.models.qwen3_tts.cuda_graph import GraphCache, HostCopy  # noqa: E402

CPU = torch.device("cpu")


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_without_cuda_each_call_gives_what_the_function_gives(sizes: list[int]) -> None:
    calls = 0

    def double(_size: int, x: Tensor) -> tuple[Tensor]:
        nonlocal calls
        calls += 1
        return (2 * x,)

    graphs: GraphCache[int] = GraphCache(double, CPU)
    for index, size in enumerate(sizes):
        (found,) = graphs(size, torch.full((size,), float(index)))
        assert found.tolist() == [2.0 * index] * size
    assert calls == len(sizes)


def test_capturing_on_a_cpu_does_not_run_the_function_and_so_moves_no_state() -> None:
    state = torch.zeros(1)
    graphs: GraphCache[str] = GraphCache(lambda _key, x: (state.add_(x),), CPU)
    graphs.capture("a", torch.ones(1))
    assert state.item() == 0
    assert "a" in graphs
    assert "b" not in graphs


@pytest.mark.parametrize(
    "wrong", [(torch.ones(3),), (torch.ones(2, dtype=torch.long),), (torch.ones(2), torch.ones(2)), ()]
)
def test_inputs_of_another_shape_than_the_buckets_are_refused(wrong: tuple[Tensor, ...]) -> None:
    graphs: GraphCache[int] = GraphCache(lambda _key, *inputs: inputs, CPU)
    graphs.capture(2, torch.ones(2))
    with pytest.raises(ValueError, match="bucket 2"):
        graphs(2, *wrong)


def test_buckets_are_apart() -> None:
    graphs: GraphCache[tuple[int, int]] = GraphCache(lambda _key, *inputs: inputs, CPU)
    graphs.capture((1, 2), torch.ones(1, 2))
    graphs.capture((2, 1), torch.ones(2, 1))
    graphs((2, 1), torch.ones(2, 1))
    with pytest.raises(ValueError, match="bucket"):
        graphs((1, 2), torch.ones(2, 1))


def test_the_function_is_told_its_bucket() -> None:
    graphs: GraphCache[int] = GraphCache(lambda key, x: (key * x,), CPU)
    (found,) = graphs(3, torch.ones(2))
    assert found.tolist() == [3, 3]


def test_a_copy_to_the_host_keeps_its_values_when_the_source_is_overwritten() -> None:
    source = torch.arange(4.0)
    copy = HostCopy(source)
    source.zero_()
    assert copy.wait().tolist() == [0, 1, 2, 3]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_replays_give_what_the_function_gives_for_new_inputs() -> None:
    device = torch.device("cuda")
    graphs: GraphCache[int] = GraphCache(lambda _key, x: (2 * x,), device)
    graphs.capture(4, torch.zeros(4, device=device))
    for value in (1.0, 3.0):
        (found,) = graphs(4, torch.full((4,), value, device=device))
        assert HostCopy(found).wait().tolist() == [2 * value] * 4
