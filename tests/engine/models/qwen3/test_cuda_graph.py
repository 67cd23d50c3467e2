"""Buckets, and the calls without CUDA; capture and replay need a GPU."""

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch import Tensor  # noqa: E402

from realtime_tts.engine.models.qwen3.cuda_graph import GraphCache, HostCopy  # noqa: E402

CPU = torch.device("cpu")


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_without_cuda_each_call_returns_the_functions_outputs(sizes: list[int]) -> None:
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


def test_a_capture_on_a_cpu_does_not_run_the_function() -> None:
    state = torch.zeros(1)
    graphs: GraphCache[str] = GraphCache(lambda _key, x: (state.add_(x),), CPU)
    graphs.capture("a", torch.ones(1))
    assert state.item() == 0


def test_inputs_of_other_shapes_than_the_captured_ones_are_rejected() -> None:
    graphs: GraphCache[int] = GraphCache(lambda _key, *inputs: inputs, CPU)
    graphs.capture(2, torch.ones(2))
    ones: Tensor = torch.ones(2)
    for wrong in ((torch.ones(3),), (ones.long(),), (ones, ones), ()):
        with pytest.raises(ValueError, match="bucket 2"):
            graphs(2, *wrong)


def test_buckets_are_independent() -> None:
    graphs: GraphCache[tuple[int, int]] = GraphCache(lambda _key, *inputs: inputs, CPU)
    graphs.capture((1, 2), torch.ones(1, 2))
    graphs.capture((2, 1), torch.ones(2, 1))
    graphs((2, 1), torch.ones(2, 1))
    with pytest.raises(ValueError, match="bucket"):
        graphs((1, 2), torch.ones(2, 1))


def test_the_function_receives_its_bucket() -> None:
    graphs: GraphCache[int] = GraphCache(lambda key, x: (key * x,), CPU)
    (found,) = graphs(3, torch.ones(2))
    assert found.tolist() == [3, 3]


def test_a_copy_to_the_host_keeps_its_values_after_the_source_is_overwritten() -> None:
    source = torch.arange(4.0)
    copy = HostCopy(source)
    source.zero_()
    assert copy.wait().tolist() == [0, 1, 2, 3]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_replays_return_the_functions_outputs_for_new_inputs() -> None:
    device = torch.device("cuda")
    graphs: GraphCache[int] = GraphCache(lambda _key, x: (2 * x,), device)
    graphs.capture(4, torch.zeros(4, device=device))
    for value in (1.0, 3.0):
        (found,) = graphs(4, torch.full((4,), value, device=device))
        assert HostCopy(found).wait().tolist() == [2 * value] * 4
