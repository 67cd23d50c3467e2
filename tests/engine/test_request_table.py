"""Who is here: places, refusals, the order of coming, and what is remembered of whom."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.engine.api import AudioReady, AudioSent, Cancel, EndStream, FinishReason, RequestFinished, Submit
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models import tone
from realtime_tts.errors import Overloaded
from tests.fakes import HeldExecutor, ends_of, make_engine, request, run_to_end, run_to_end_held, slots

SLOW = tone.ToneCosts(a0_s=0.009, b0_s=0.00103, prefill_s=0.012, a1_s=0.008, b1_s=0.00025, context_frames=25)


def test_a_listener_too_many_is_refused_at_once_with_a_time_to_come_again() -> None:
    engine, events = make_engine(tone.build(costs=SLOW, decode_batch=4), executor=HeldExecutor())
    for number in range(200):
        engine.handle(Submit(request(number)))
    engine.step()
    refused = [event for event in events if isinstance(event, RequestFinished)]
    status = engine.status()
    assert status.places is not None
    assert 40 <= status.places <= 60
    assert status.active_requests == status.places + status.waiting_requests
    assert len(refused) == 200 - status.active_requests
    assert all(isinstance(event.error, Overloaded) and (event.error.retry_after_s or 0) >= 1 for event in refused)


def test_without_a_limit_to_waiting_nobody_is_refused() -> None:
    config = EngineConfig(max_wait_s=None)
    engine, events = make_engine(tone.build(costs=SLOW, decode_batch=4), executor=HeldExecutor(), config=config)
    for number in range(200):
        engine.handle(Submit(request(number)))
    engine.step()
    assert not events
    assert engine.status().waiting_requests == 200 - (engine.status().places or 0)


def test_the_next_sentence_of_a_speaking_session_needs_no_new_place() -> None:
    engine, events = make_engine(tone.build(costs=SLOW, decode_batch=4), executor=HeldExecutor())
    for number in range(200):
        engine.handle(Submit(request(number)))
    engine.handle(Submit(request(1000, stream="s0")))
    engine.step()
    assert not ends_of(events, "r1000")
    assert engine._roster.requests["r1000"].admitted


def test_one_who_gives_up_waiting_leaves_the_queue() -> None:
    config = EngineConfig(max_wait_s=None)
    engine, events = make_engine(tone.build(costs=SLOW, decode_batch=4), executor=HeldExecutor(), config=config)
    for number in range(100):
        engine.handle(Submit(request(number)))
    waiting = engine.status().waiting_requests
    engine.handle(EndStream("s99"))
    engine.step()
    assert ends_of(events, "r99")[0].reason is FinishReason.CANCELLED
    assert engine.status().waiting_requests == waiting - 1


@given(st.data())
@settings(deadline=None, max_examples=30)
def test_nothing_is_remembered_of_a_stream_that_has_ended(data: st.DataObject) -> None:
    model = tone.build(costs=tone.ToneCosts(a0_s=0.01))
    executor = HeldExecutor()
    engine, events = make_engine(model, executor=executor)
    for number in range(6):
        engine.handle(Submit(request(number, "x" * 10, stream=f"s{number % 3}")))
    for _ in range(data.draw(st.integers(0, 40))):
        if data.draw(st.booleans()):
            executor.run_all()
        engine.step()
        if data.draw(st.booleans()):
            heard = [event for event in events if isinstance(event, AudioReady)]
            for event in heard[-1:]:
                engine.handle(AudioSent(event.request_id, len(event.samples), lead_s=1.0))
    for number in range(3):
        engine.handle(EndStream(f"s{number}"))
    run_to_end_held(engine, executor)
    assert all(len(ends_of(events, f"r{number}")) == 1 for number in range(6))
    assert slots(model) == 0
    assert not engine._roster._streams
    assert not engine._roster._unrouted
    assert not engine._roster.requests


def test_sound_of_an_ended_sentence_that_is_still_unsent_counts_for_the_next() -> None:
    engine, events = make_engine(tone.build())
    engine.handle(Submit(request(0, "x" * 25, stream="s")))
    run_to_end(engine)
    assert ends_of(events, "r0")
    engine.handle(AudioSent("r0", 48_000 // 4, lead_s=10.0))
    engine.handle(Submit(request(1, "y", stream="s")))
    unsent_s = 20 * 0.08 - 0.5
    assert engine._roster.deadline_s(engine._roster.requests["r1"]) == pytest.approx(10.0 + unsent_s)


def test_a_listener_takes_one_place_however_many_of_its_sentences_run() -> None:
    engine, _ = make_engine(tone.build(costs=SLOW, decode_batch=4), executor=HeldExecutor())
    for number in range(30):
        engine.handle(Submit(request(number, stream=f"s{number % 10}")))
    engine.step()
    assert engine._roster._places_taken() == 10
    assert engine._roster.load().streams == 20  # 10, and as many as came in the last second


def test_where_nobody_is_refused_the_load_is_what_it_is() -> None:
    engine, _ = make_engine(
        tone.build(costs=SLOW, decode_batch=4), executor=HeldExecutor(), config=EngineConfig(scheduler="policy_c")
    )
    for number in range(30):
        engine.handle(Submit(request(number)))
    engine.step()
    assert engine._roster.load().streams == 30
    assert engine.status().places is None


def test_another_utterance_of_one_who_speaks_waits_like_everybody_else() -> None:
    """Those who never stop would else keep all others waiting for ever."""
    config = EngineConfig(max_wait_s=None)
    engine, _ = make_engine(tone.build(costs=SLOW, decode_batch=4), executor=HeldExecutor(), config=config)
    for number in range(100):
        engine.handle(Submit(request(number)))
    waiting = engine.status().waiting_requests
    engine.handle(Submit(dataclasses.replace(request(500, stream="s0"), utterance_index=1)))
    assert engine.status().waiting_requests == waiting + 1
    engine.handle(Submit(request(501, stream="s0")))
    assert engine._roster.requests["r501"].admitted, "but the next sentence of the same one does not"


def test_the_next_sentences_of_an_utterance_that_waits_come_in_with_it_and_are_never_refused() -> None:
    engine, events = make_engine(tone.build(costs=SLOW, decode_batch=4), executor=HeldExecutor())
    for number in range(200):
        engine.handle(Submit(request(number)))
    engine.step()
    roster = engine._roster
    last = list(roster.waiting)[-1]
    waiting, refused = len(roster.waiting), len(events)
    assert refused, "the queue is full"
    for number in range(1000, 1005):
        engine.handle(Submit(request(number, stream=last.request.stream_id)))
    engine.step()
    assert len(events) == refused
    assert len(roster.waiting) == waiting + 5
    for number in range(waiting):
        engine.handle(EndStream(f"s{number}"))
    assert roster.waiting
    engine.step()
    assert not roster.waiting, "all on the place of the first"
    assert last.admitted
    assert all(roster.requests[f"r{number}"].admitted for number in range(1000, 1005))
    assert roster._places_taken() == engine.status().places


def test_a_sentence_whose_text_came_late_waits_before_newcomers_and_is_never_refused() -> None:
    executor = HeldExecutor()
    engine, events = make_engine(tone.build(costs=SLOW, decode_batch=4), executor=executor)
    engine.handle(Submit(request(0, "x" * 10, stream="slow writer")))
    run_to_end_held(engine, executor)
    heard = sum(len(event.samples) for event in events if isinstance(event, AudioReady))
    engine.handle(AudioSent("r0", heard, lead_s=-1.0))
    for number in range(1, 200):
        engine.handle(Submit(request(number)))
    events.clear()
    engine.handle(Submit(request(1000, stream="slow writer")))
    engine.handle(Submit(request(1001, stream="newcomer")))
    engine.step()
    assert ends_of(events, "r1001")
    assert not ends_of(events, "r1000")
    assert engine._roster.waiting[0].request_id == "r1000"
    engine.handle(EndStream("s1"))
    engine.step()
    assert engine._roster.requests["r1000"].admitted


def test_where_the_first_sentence_gives_up_waiting_the_next_ones_wait_on() -> None:
    config = EngineConfig(max_wait_s=None)
    engine, _ = make_engine(tone.build(costs=SLOW, decode_batch=4), executor=HeldExecutor(), config=config)
    for number in range(100):
        engine.handle(Submit(request(number)))
    places = engine.status().places or 0
    engine.handle(Submit(request(500, stream=f"s{places}")))
    engine.handle(Cancel(f"r{places}"))
    engine.handle(EndStream("s0"))
    engine.step()
    roster = engine._roster
    assert not roster.requests["r500"].admitted
    assert roster.requests[f"r{places + 1}"].admitted, "which came before it"


def test_where_a_model_has_few_slots_the_next_is_told_the_wait_for_one_of_them() -> None:
    model = dataclasses.replace(tone.build(), slots=2)
    engine, events = make_engine(model, executor=HeldExecutor())
    for number in range(2):
        engine.handle(Submit(request(number)))
    engine.handle(Submit(request(9)))
    engine.step()
    (refused,) = [event for event in events if isinstance(event, RequestFinished)]
    assert refused.request_id == "r9"
    assert isinstance(refused.error, Overloaded)
    assert refused.error.retry_after_s == pytest.approx(5 / 2, abs=0.1)
