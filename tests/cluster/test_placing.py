"""Which replica a new listener goes to."""

from realtime_tts.cluster.placing import Candidate, choose
from realtime_tts.engine.api import EngineStatus


def candidate(
    name: str, listeners: int, capacity: int | None = 10, *, ready: bool = True, draining: bool = False, last: int = 0
) -> Candidate:
    return Candidate(name, EngineStatus(ready, "", capacity=capacity), listeners, draining, last)


def test_the_least_loaded_by_its_own_capacity_is_chosen() -> None:
    assert choose([candidate("a", 3), candidate("b", 2)]) == "b"
    assert choose([candidate("slow", 2, 4), candidate("fast", 5, 20)]) == "fast"


def test_equal_load_goes_to_the_fewest_listeners_then_by_turns() -> None:
    assert choose([candidate("a", 3, 8), candidate("b", 1, 4)]) == "b"
    assert choose([candidate("a", 1, last=4), candidate("b", 1, last=3)]) == "b"
    assert choose([candidate("a", 1, None), candidate("b", 0, None)]) == "b"


def test_replicas_that_are_not_ready_draining_or_excluded_get_nobody() -> None:
    only = [candidate("a", 0, ready=False), candidate("b", 0, draining=True), candidate("c", 9)]
    assert choose(only) == "c"
    assert choose(only, {"c"}) is None
    assert choose([]) is None
