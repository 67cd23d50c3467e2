"""Lanes: one batch at a time each, releases after the batch, and a failure is data."""

import threading

from realtime_tts.engine.executors.thread import InlineExecutor, LaneExecutor, Launch
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import StageInput
from tests.fakes import Gate, WrappedStage, raises_for, request


def talker_launch(before: object = None, number: int = 0) -> Launch:
    talker = tone.build().stages[0]
    stage = WrappedStage(talker, before) if before else talker  # type: ignore[arg-type]
    return Launch(stage, (StageInput(request(number)),))


def test_what_a_stage_raises_comes_back_as_data() -> None:
    executor = InlineExecutor()
    executor.launch(talker_launch(raises_for(request().text)))
    (completion,) = executor.completed()
    assert isinstance(completion.error, RuntimeError)
    assert executor.completed() == []


def test_a_release_waits_for_the_batch_that_runs_on_its_lane() -> None:
    gate, done = Gate(), threading.Event()
    executor = LaneExecutor(["talker"], done.set)
    launch = talker_launch(gate)
    executor.launch(launch)
    assert gate.entered.wait(10)
    executor.release(launch.stage, "r0")
    assert executor.completed() == []
    gate.opened.set()
    assert done.wait(10)
    assert [c.error for c in executor.completed()] == [None]
    executor.close()
    assert launch.stage._stage.slots == {}  # type: ignore[attr-defined]


def test_closing_ends_every_lane_s_thread() -> None:
    before = threading.active_count()
    executor = LaneExecutor(["a", "b"], lambda: None)
    assert threading.active_count() == before + 2
    executor.close()
    assert threading.active_count() == before
