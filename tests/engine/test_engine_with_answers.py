"""Engine loop: requests whose text arrives as tokens, for a conversation that may be known later."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.clock import VirtualClock
from realtime_tts.engine.api import (
    AnswerRequest,
    Cancel,
    Extend,
    FinishReason,
    RequestAccepted,
    SpokenContext,
    Submit,
    SubmitAnswer,
    SynthesisRequest,
)
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.engine import Engine
from realtime_tts.engine.models import tone
from tests.fakes import ends_of, make_engine, make_held_engine, run_to_end, samples_of, slots

CONTEXT = SpokenContext(np.arange(4, dtype=np.int32), "key")
EARLY = SynthesisRequest("r", "s", "", "tone_low", text_complete=False)
"""Submitted before its text, to reserve capacity."""


@given(
    ids=st.lists(st.integers(0, 99), min_size=1, max_size=12),
    pieces=st.lists(st.integers(1, 4), min_size=12, max_size=12),
    context_late=st.booleans(),
)
@settings(deadline=None, max_examples=40)
def test_any_schedule_of_tokens_gives_the_same_audio(ids: list[int], pieces: list[int], context_late: bool) -> None:
    model = tone.build()
    engine, events = make_engine(model)
    engine.handle(Submit(dataclasses.replace(EARLY, context=None if context_late else CONTEXT)))
    run_to_end(engine)
    context, left = CONTEXT if context_late else None, tuple(ids)
    for piece in pieces:
        if not left:
            break
        engine.handle(Extend("r", "", False, left[:piece], context))
        context, left = None, left[piece:]
        run_to_end(engine)
        assert not ends_of(events, "r")  # it waits, and makes no frame without its token
    engine.handle(Extend("r", "", True))
    run_to_end(engine)
    (end,) = ends_of(events, "r")
    assert end.reason is FinishReason.COMPLETE
    expected = tone.decode(tone.answer_codes(ids, "tone_low"))
    np.testing.assert_array_equal(np.concatenate(samples_of(events, "r")), expected)
    assert slots(model) == 0


def test_a_request_that_awaits_its_text_is_accepted_and_launched_only_with_something_to_read() -> None:
    engine, events, executor = make_held_engine(tone.build())
    engine.handle(Submit(EARLY))
    engine.step()
    assert events == [RequestAccepted("r")]
    assert not executor.held
    engine.handle(Extend("r", "", False, context=CONTEXT))
    engine.step()
    (launch,) = executor.held
    assert launch.inputs[0].request.context is CONTEXT


def test_a_request_with_its_context_is_read_before_the_first_token() -> None:
    engine, _events, executor = make_held_engine(tone.build())
    engine.handle(Submit(dataclasses.replace(EARLY, context=CONTEXT)))
    engine.step()
    assert len(executor.held) == 1


def test_a_refused_request_is_not_accepted() -> None:
    engine, events = make_engine(tone.build(), config=EngineConfig(max_requests=1))
    for name in ("one", "two"):
        engine.handle(Submit(dataclasses.replace(EARLY, request_id=name)))
    engine.step()
    assert RequestAccepted("one") in events
    assert RequestAccepted("two") not in events
    assert len(ends_of(events, "two")) == 1


def test_a_request_that_is_not_live_is_accepted_when_it_is_admitted() -> None:
    clock = VirtualClock()
    costs = tone.ToneCosts(a0_s=0.030, b0_s=0.040)  # one listener
    model = tone.build(costs=costs, wait_s=lambda _seconds: None)
    engine, events = make_engine(model, config=EngineConfig(max_wait_s=0.0), clock=clock)
    engine.handle(Submit(dataclasses.replace(EARLY, request_id="live", stream_id="live")))
    engine.step()
    engine.handle(Submit(dataclasses.replace(EARLY, live=False)))
    engine.step()
    assert RequestAccepted("live") in events
    assert RequestAccepted("r") not in events
    engine.handle(Cancel("live"))
    for _ in range(20):  # one that is not live is admitted after a while without live listeners
        clock.advance(1.0)
        engine.step()
    assert RequestAccepted("r") in events


def test_a_cancel_before_the_first_token_frees_the_request() -> None:
    model = tone.build()
    engine, events = make_engine(model)
    engine.handle(Submit(dataclasses.replace(EARLY, context=CONTEXT)))
    run_to_end(engine)
    engine.handle(Cancel("r"))
    run_to_end(engine)
    assert ends_of(events, "r")[0].reason is FinishReason.CANCELLED
    assert slots(model) == 0


def tokens_every(engine: Engine, clock: VirtualClock, interval_s: float, name: str) -> None:
    for _ in range(3):
        clock.advance(interval_s)
        engine.handle(Extend(name, "", False, (1,)))


def test_frames_are_expected_no_faster_than_tokens_arrive() -> None:
    clock = VirtualClock()
    engine, _events = make_engine(tone.build(costs=tone.ToneCosts(a0_s=0.01), wait_s=lambda _s: None), clock=clock)
    engine.handle(Submit(EARLY))
    assert engine._table.load().frame_interval_s == pytest.approx(0.01)
    tokens_every(engine, clock, 0.06, "r")
    assert engine._table.load().frame_interval_s == pytest.approx(0.06)
    engine.handle(Submit(dataclasses.replace(EARLY, request_id="other", stream_id="other")))
    assert engine._table.load().frame_interval_s == pytest.approx(0.068)  # its prompt is read in between
    engine.handle(Cancel("other"))
    engine.handle(Extend("r", "", True))
    assert engine._table.load().frame_interval_s == pytest.approx(0.01)


def test_a_conversation_is_not_for_a_speech_engine() -> None:
    engine, _events = make_engine(tone.build())
    with pytest.raises(AssertionError, match="AnswerEngine"):
        engine.handle(SubmitAnswer(AnswerRequest("r", "s", (), None)))
