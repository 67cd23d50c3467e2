"""Inline executor: batches run at once, and an exception of a stage is a value."""

from realtime_tts.engine.executor import InlineExecutor, Launch
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import StageInput
from tests.fakes import raises_for, request, slots, wrapped


def test_the_exception_of_a_stage_is_part_of_the_completion() -> None:
    executor = InlineExecutor(wrapped(tone.build(), "talker", raises_for(request().text)))
    executor.launch(Launch("talker", "talker", (StageInput(request()),)))
    (completion,) = executor.completed()
    assert isinstance(completion.error, RuntimeError)
    assert executor.completed() == []


def test_batches_run_and_are_released_on_the_replica_of_their_lane() -> None:
    model = tone.build(replicas=2)
    executor = InlineExecutor(model)
    executor.launch(Launch("talker", "talker-1", (StageInput(request()),)))
    first, second = model.stages["talker"]
    assert isinstance(first, tone.Talker)
    assert isinstance(second, tone.Talker)
    assert (len(first.slots), len(second.slots)) == (0, 1)
    executor.release("talker", "talker-1", "r0")
    assert slots(model) == 0
    executor.close()
    assert executor.completed() == []
