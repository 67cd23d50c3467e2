"""Slots are acquired zeroed, saved and restored completely, and never shared."""

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from realtime_tts.engine.models.qwen3.codec.state import Carry, StateArena  # noqa: E402

SHAPES: dict[str, tuple[int, ...]] = {"age": (1,), "conv": (3, 2), "keys": (2, 4, 3)}
FLOATS = 1 + 6 + 24
CPU = torch.device("cpu")


def arena(slots: int = 3) -> StateArena:
    return StateArena(SHAPES, slots, CPU)


class Slots(RuleBasedStateMachine):
    """Each owner fills its slot with its own number, and the slot never contains another."""

    def __init__(self) -> None:
        super().__init__()
        self.arena = arena()
        self.numbers: dict[int, float] = {}
        self.next = 1.0

    @precondition(lambda self: self.arena.free)
    @rule()
    def acquire(self) -> None:
        slot = self.arena.acquire()
        assert slot not in self.numbers
        assert not self.arena.snapshot(slot).any()
        self.numbers[slot] = 0.0

    @precondition(lambda self: self.numbers)
    @rule()
    def write(self) -> None:
        slot = min(self.numbers, key=lambda slot: self.numbers[slot])
        self.numbers[slot] = self.next
        carry = Carry(self.arena.views, torch.tensor([slot]))
        for name, shape in SHAPES.items():
            carry.write(name, torch.full((1, *shape), self.next))
        self.next += 1

    @precondition(lambda self: len(self.numbers) > 1)
    @rule()
    def copy(self) -> None:
        first, *_, last = self.numbers
        self.arena.restore(last, self.arena.snapshot(first))
        self.numbers[last] = self.numbers[first]

    @precondition(lambda self: self.numbers)
    @rule()
    def release(self) -> None:
        slot = next(iter(self.numbers))
        self.arena.release(slot)
        del self.numbers[slot]

    @invariant()
    def every_slot_contains_only_its_number(self) -> None:
        assert self.arena.free == self.arena.slots - len(self.numbers)
        for slot, number in self.numbers.items():
            assert (self.arena.snapshot(slot) == number).all()


Slots.TestCase.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
TestSlots = Slots.TestCase


def test_the_views_cover_the_whole_row() -> None:
    state = arena()
    slot = state.acquire()
    for view in state.views.values():
        view[slot] = 1
    assert (state.snapshot(slot) == 1).all()
    assert state.snapshot(slot).shape == (FLOATS,)


def test_a_snapshot_does_not_change_with_its_slot() -> None:
    state = arena()
    slot = state.acquire()
    kept = state.snapshot(slot)
    state.views["conv"][slot] = 5
    assert not kept.any()
    assert kept.untyped_storage().nbytes() == 4 * FLOATS


def test_extend_prepends_the_past_and_keeps_the_last_inputs_of_each_row() -> None:
    state = arena()
    slots = [state.acquire() for _ in range(3)]
    carry = Carry(state.views, torch.tensor([slots[2], slots[0]]))
    first = torch.arange(6.0).view(2, 3, 1)
    assert torch.equal(carry.extend("conv", first), torch.cat((torch.zeros(2, 3, 2), first), -1))
    second = torch.arange(10.0, 34.0).view(2, 3, 4)
    assert torch.equal(carry.extend("conv", second), torch.cat((torch.zeros(2, 3, 1), first, second), -1))
    assert torch.equal(state.views["conv"][slots[2]], second[0, :, -2:])
    assert torch.equal(state.views["conv"][slots[0]], second[1, :, -2:])
    assert not state.views["conv"][slots[1]].any()


def test_a_slot_that_is_not_acquired_is_rejected() -> None:
    state = arena()
    slot = state.acquire()
    state.release(slot)
    for use in (state.release, state.snapshot, state.check, lambda slot: state.restore(slot, torch.zeros(FLOATS))):
        for bad in (slot, -1, 99):
            with pytest.raises(ValueError, match="not acquired"):
                use(bad)


def test_a_state_of_another_shape_or_dtype_is_rejected() -> None:
    slots = arena()
    slot = slots.acquire()
    states: list[Tensor] = [torch.zeros(FLOATS + 1), torch.zeros(1, FLOATS), torch.zeros(FLOATS).double()]
    for state in states:
        with pytest.raises(ValueError, match="must be 31 floats"):
            slots.restore(slot, state)


def test_more_streams_than_slots_raise_and_so_does_an_arena_without_slots() -> None:
    full = arena(slots=1)
    full.acquire()
    with pytest.raises(RuntimeError, match="all 1 decoder slots"):
        full.acquire()
    with pytest.raises(ValueError, match="must be positive"):
        arena(slots=0)
