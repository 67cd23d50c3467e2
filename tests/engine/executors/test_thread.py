"""Thread executor: one batch at a time on each lane, and releases after the batch."""

import threading

from realtime_tts.engine.executor import Launch
from realtime_tts.engine.executors.thread import LaneExecutor
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import StageInput
from tests.fakes import Gate, request, slots, wrapped


def test_a_release_waits_for_the_batch_that_runs_on_its_lane() -> None:
    gate, done = Gate(), threading.Event()
    model = tone.build()
    executor = LaneExecutor(wrapped(model, "talker", gate), done.set)
    executor.launch(Launch("talker", "talker", (StageInput(request()),)))
    assert gate.entered.wait(10)
    executor.release("talker", "talker", "r0")
    assert executor.completed() == []
    gate.opened.set()
    assert done.wait(10)
    assert [c.error for c in executor.completed()] == [None]
    executor.close()
    assert slots(model) == 0


def test_closing_ends_the_threads_of_all_lanes() -> None:
    before = threading.active_count()
    executor = LaneExecutor(tone.build(replicas=2), lambda: None)
    assert threading.active_count() == before + 4
    executor.close()
    assert threading.active_count() == before
