"""Request table: capacity, refusals, the order of admission, and what is kept of whom."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.clock import VirtualClock
from realtime_tts.engine.admission_queue import AdmissionQueue
from realtime_tts.engine.api import AudioReady, AudioSent, Cancel, EndStream, FinishReason, RequestFinished, Submit
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models import tone
from realtime_tts.errors import Overloaded
from tests.fakes import ends_of, make_engine, make_held_engine, request, run_to_end, run_to_end_held, slots, with_slots

SLOW = tone.ToneCosts(a0_s=0.009, b0_s=0.00103, prefill_s=0.012, a1_s=0.008, b1_s=0.00025, context_frames=25)


def test_a_listener_beyond_the_capacity_is_refused_at_once_with_a_time_to_retry() -> None:
    engine, events, _executor = make_held_engine(tone.build(costs=SLOW, decode_batch=4))
    for number in range(200):
        engine.handle(Submit(request(number)))
    engine.step()
    refused = [event for event in events if isinstance(event, RequestFinished)]
    status = engine.status()
    assert status.capacity is not None
    assert 40 <= status.capacity <= 60
    assert status.active_requests == status.capacity + status.waiting_requests
    assert len(refused) == 200 - status.active_requests
    assert all(isinstance(event.error, Overloaded) and (event.error.retry_after_s or 0) >= 1 for event in refused)


def test_without_a_limit_to_waiting_no_listener_is_refused() -> None:
    config = EngineConfig(max_wait_s=None)
    engine, events, _executor = make_held_engine(tone.build(costs=SLOW, decode_batch=4), config=config)
    for number in range(200):
        engine.handle(Submit(request(number)))
    engine.step()
    assert not events
    assert engine.status().waiting_requests == 200 - (engine.status().capacity or 0)


def test_the_next_sentence_of_a_playing_stream_needs_no_admission() -> None:
    engine, events, _executor = make_held_engine(tone.build(costs=SLOW, decode_batch=4))
    for number in range(200):
        engine.handle(Submit(request(number)))
    engine.handle(Submit(request(1000, stream="s0")))
    engine.step()
    assert not ends_of(events, "r1000")
    assert engine._table.requests["r1000"].admitted


def test_a_listener_who_stops_waiting_leaves_the_queue() -> None:
    config = EngineConfig(max_wait_s=None)
    engine, events, _executor = make_held_engine(tone.build(costs=SLOW, decode_batch=4), config=config)
    for number in range(100):
        engine.handle(Submit(request(number)))
    waiting = engine.status().waiting_requests
    engine.handle(EndStream("s99"))
    engine.step()
    assert ends_of(events, "r99")[0].reason is FinishReason.CANCELLED
    assert engine.status().waiting_requests == waiting - 1


@given(st.data())
@settings(deadline=None, max_examples=20)
def test_nothing_is_kept_of_a_stream_that_has_ended(data: st.DataObject) -> None:
    model = tone.build(costs=tone.ToneCosts(a0_s=0.01))
    engine, events, executor = make_held_engine(model)
    for number in range(6):
        engine.handle(Submit(request(number, "x" * 10, stream=f"s{number % 3}")))
    for _ in range(data.draw(st.integers(0, 40))):
        if data.draw(st.booleans()):
            executor.run_all()
        engine.step()
        if data.draw(st.booleans()):
            received = [event for event in events if isinstance(event, AudioReady)]
            for event in received[-1:]:
                engine.handle(AudioSent(event.request_id, len(event.samples), lead_s=1.0))
    for number in range(3):
        engine.handle(EndStream(f"s{number}"))
    run_to_end_held(engine, executor)
    assert all(len(ends_of(events, f"r{number}")) == 1 for number in range(6))
    assert slots(model) == 0
    assert not engine._table._streams
    assert not engine._table._unsent
    assert not engine._table.requests


def test_unsent_audio_of_an_ended_sentence_counts_for_the_next() -> None:
    engine, events = make_engine(tone.build())
    engine.handle(Submit(request(0, "x" * 25, stream="s")))
    run_to_end(engine)
    assert ends_of(events, "r0")
    engine.handle(AudioSent("r0", 48_000 // 4, lead_s=10.0))
    engine.handle(Submit(request(1, "y", stream="s")))
    unsent_s = 20 * 0.08 - 0.5
    assert engine._table.deadline_s(engine._table.requests["r1"]) == pytest.approx(10.0 + unsent_s)


def test_a_listener_counts_once_for_any_number_of_running_sentences() -> None:
    engine, _events, _executor = make_held_engine(tone.build(costs=SLOW, decode_batch=4))
    for number in range(30):
        engine.handle(Submit(request(number, stream=f"s{number % 10}")))
    engine.step()
    assert engine._table._occupied() == 10
    assert engine._table.load().streams == 20  # 10, and as many as came in the last second


def test_without_admission_the_load_is_that_of_the_present() -> None:
    engine, _events, _executor = make_held_engine(
        tone.build(costs=SLOW, decode_batch=4), config=EngineConfig(scheduler="policy_c")
    )
    for number in range(30):
        engine.handle(Submit(request(number)))
    engine.step()
    assert engine._table.load().streams == 30
    assert engine.status().capacity is None


def test_the_next_utterance_of_a_speaking_listener_waits_for_its_own_previous_one_and_is_never_refused() -> None:
    engine, events, _executor = make_held_engine(tone.build(costs=SLOW, decode_batch=4))
    for number in range(200):
        engine.handle(Submit(request(number)))
    engine.step()
    waiting, refused = engine.status().waiting_requests, len(events)
    engine.handle(Submit(dataclasses.replace(request(500, stream="s0"), utterance_index=1)))
    engine.handle(Submit(dataclasses.replace(request(501, stream="s0"), utterance_index=1)))
    engine.handle(Submit(request(502, stream="s0")))
    engine.step()
    assert len(events) == refused
    assert engine.status().waiting_requests == waiting + 2
    assert engine._table.requests["r502"].admitted, "a sentence of the utterance that has begun"
    engine.handle(Cancel("r502"))
    engine.handle(Cancel("r0"))
    engine.step()
    assert engine._table.requests["r500"].admitted, "its capacity passes from one utterance to the next"
    assert engine._table.requests["r501"].admitted
    assert engine.status().waiting_requests == waiting


def test_a_listener_who_never_stops_does_not_keep_others_waiting_for_ever() -> None:
    clock = VirtualClock()
    engine, _events, executor = make_held_engine(
        with_slots(tone.build(), "talker", 1), clock=clock, config=EngineConfig(max_wait_s=None)
    )
    engine.handle(Submit(request(0, stream="speaker")))
    engine.handle(Submit(request(99, stream="newcomer")))
    admitted_after = None
    for utterance in range(1, 20):
        following = dataclasses.replace(request(utterance, stream="speaker"), utterance_index=utterance)
        engine.handle(Submit(following))
        clock.advance(1.0)
        while not ends_of(_events, f"r{utterance - 1}"):
            executor.run_all()
            engine.step()
        if engine._table.requests["r99"].admitted:
            admitted_after = utterance
            break
    assert admitted_after == AdmissionQueue.FAIR_S


def test_the_next_sentences_of_a_waiting_utterance_are_admitted_with_it_and_never_refused() -> None:
    engine, events, _executor = make_held_engine(tone.build(costs=SLOW, decode_batch=4))
    for number in range(200):
        engine.handle(Submit(request(number)))
    engine.step()
    table = engine._table
    last = next(state for state in reversed(table.requests.values()) if not state.admitted)
    waiting, refused = len(table.queue), len(events)
    assert refused, "the queue is full"
    for number in range(1000, 1005):
        engine.handle(Submit(request(number, stream=last.request.stream_id)))
    engine.step()
    assert len(events) == refused
    assert len(table.queue) == waiting + 5
    for number in range(waiting):
        engine.handle(EndStream(f"s{number}"))
    assert table.queue
    engine.step()
    assert not table.queue, "all are admitted as one listener"
    assert last.admitted
    assert all(table.requests[f"r{number}"].admitted for number in range(1000, 1005))
    assert table._occupied() == engine.status().capacity


def test_a_sentence_with_late_text_waits_ahead_of_new_listeners_and_is_never_refused() -> None:
    engine, events, executor = make_held_engine(tone.build(costs=SLOW, decode_batch=4))
    engine.handle(Submit(request(0, "x" * 10, stream="slow writer")))
    run_to_end_held(engine, executor)
    received = sum(len(event.samples) for event in events if isinstance(event, AudioReady))
    engine.handle(AudioSent("r0", received, lead_s=-1.0))
    for number in range(1, 200):
        engine.handle(Submit(request(number)))
    events.clear()
    engine.handle(Submit(request(1000, stream="slow writer")))
    engine.handle(Submit(request(1001, stream="newcomer")))
    engine.step()
    assert ends_of(events, "r1001")
    assert not ends_of(events, "r1000")
    first = engine._table.queue.next_live()
    assert first is not None
    assert [state.request_id for state in first.requests] == ["r1000"]
    engine.handle(EndStream("s1"))
    engine.step()
    assert engine._table.requests["r1000"].admitted


def test_an_utterance_keeps_its_place_in_the_queue_where_its_first_sentence_is_cancelled() -> None:
    config = EngineConfig(max_wait_s=None)
    engine, _events, _executor = make_held_engine(tone.build(costs=SLOW, decode_batch=4), config=config)
    for number in range(100):
        engine.handle(Submit(request(number)))
    capacity = engine.status().capacity or 0
    engine.handle(Submit(request(500, stream=f"s{capacity}")))
    engine.handle(Cancel(f"r{capacity}"))
    engine.handle(EndStream("s0"))
    engine.step()
    table = engine._table
    assert table.requests["r500"].admitted
    assert not table.requests[f"r{capacity + 1}"].admitted, "which came after it"


def test_a_refusal_for_lack_of_slots_states_the_wait_for_a_slot() -> None:
    model = with_slots(tone.build(), "talker", 2)
    engine, events, _executor = make_held_engine(model)
    for number in range(2):
        engine.handle(Submit(request(number)))
    engine.handle(Submit(request(9)))
    engine.step()
    (refused,) = [event for event in events if isinstance(event, RequestFinished)]
    assert refused.request_id == "r9"
    assert isinstance(refused.error, Overloaded)
    assert refused.error.retry_after_s == pytest.approx(5 / 2, abs=0.1)
