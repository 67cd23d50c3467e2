"""Admission queue: no sentence is lost, order is kept, every exit path frees, and nobody waits for ever."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.clock import VirtualClock
from realtime_tts.engine.admission_queue import AdmissionQueue, WaitingUtterance
from realtime_tts.engine.api import (
    AudioReady,
    AudioSent,
    Cancel,
    EndStream,
    EngineEvent,
    FinishReason,
    RequestFinished,
    Submit,
    SynthesisRequest,
)
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.engine import Engine
from realtime_tts.engine.models import tone
from realtime_tts.engine.simulate import Simulation
from realtime_tts.engine.stage import Model
from realtime_tts.engine.state import RequestState, Stream
from realtime_tts.errors import Overloaded
from tests.fakes import HeldExecutor, ends_of, make_held_engine, run_to_end_held, slots, with_slots

QUEUE_S = 3.0


def asked(name: str, stream: str, utterance: int = 0, *, live: bool = True) -> SynthesisRequest:
    return SynthesisRequest(name, stream, "Hello there.", "tone_low", utterance_index=utterance, live=live)


def waiting(name: str, stream: Stream, sequence: int, utterance: int = 0, *, live: bool = True) -> RequestState:
    request = asked(name, stream.stream_id, utterance, live=live)
    state = RequestState(request=request, sequence=sequence, submitted_s=0.0, stream=stream, stages=())
    stream.requests.append(state)
    return state


def names(utterance: WaitingUtterance | None) -> list[str]:
    return [] if utterance is None else [state.request_id for state in utterance.requests]


def end(queue: AdmissionQueue, state: RequestState, now_s: float) -> None:
    state.ended = FinishReason.COMPLETE
    state.stream.requests.remove(state)
    queue.on_end(state.stream, now_s)


def test_sentences_of_one_utterance_wait_together() -> None:
    queue, stream = AdmissionQueue(), Stream("s")
    one, two = waiting("one", stream, 0), waiting("two", stream, 1)
    queue.add(one, 0.0)
    queue.add(two, 1.0)
    assert names(queue.next_live()) == ["one", "two"]
    assert (len(queue), queue.listeners) == (2, 1)
    queue.remove(one)
    assert names(queue.next_live()) == ["two"]
    queue.remove(two)
    assert queue.next_live() is None
    assert not queue
    assert queue.listeners == 0


def speaker(queue: AdmissionQueue, name: str, sequence: int) -> tuple[RequestState, RequestState]:
    """A listener whose first utterance is made, and whose next one waits."""
    stream = Stream(name)
    speaking, following = waiting(f"{name}0", stream, sequence), waiting(f"{name}1", stream, sequence + 1, 1)
    speaking.admitted, stream.utterance_index = True, 0
    stream.playout_end_s = 100.0
    queue.add(following, 0.0)
    return speaking, following


def test_an_utterance_that_was_sent_ahead_waits_behind_its_own_and_then_keeps_the_capacity() -> None:
    queue = AdmissionQueue()
    speaking, _following = speaker(queue, "s", 0)
    assert names(queue.next_live()) == ["s1"], "it may use capacity that nobody else wants"
    queue.add(waiting("new", Stream("n"), 5), 1.0)
    assert names(queue.next_live()) == ["new"], "sending ahead gives no priority"
    assert queue.listeners == 1
    end(queue, speaking, 2.0)
    assert names(queue.next_live()) == ["s1"], "the capacity that has become free is its own"


def test_a_new_listener_who_has_waited_long_goes_before_those_who_would_continue() -> None:
    queue = AdmissionQueue()
    speaking, _following = speaker(queue, "s", 0)
    queue.add(waiting("new", Stream("n"), 5), 1.0)
    end(queue, speaking, 1.0 + queue.FAIR_S)
    assert names(queue.next_live()) == ["new"]


def test_the_order_of_the_lines() -> None:
    queue = AdmissionQueue()
    queue.add(waiting("patient", Stream("p"), 0, live=False), 0.0)
    speaker(queue, "ahead", 1)
    queue.add(waiting("new", Stream("n"), 3), 0.0)
    speaking, _following = speaker(queue, "next", 4)
    end(queue, speaking, 0.0)
    stream = Stream("b", playout_end_s=-100.0, utterance_index=0)
    queue.add(waiting("begun", stream, 6), 0.0)
    order = []
    while (utterance := queue.next_live() or queue.next_patient()) is not None:
        order += names(utterance)
        queue.take(utterance)
    assert order == ["begun", "next1", "new", "ahead1", "patient"]
    assert not queue


def test_cancelling_an_utterance_that_waits_does_not_advance_the_next_one() -> None:
    """Otherwise a listener could go before others by sending two utterances and cancelling the first."""
    queue = AdmissionQueue()
    stream = Stream("s")
    first, second = waiting("first", stream, 0), waiting("second", stream, 1, 1)
    queue.add(first, 0.0)
    queue.add(second, 0.0)
    queue.add(waiting("other", Stream("o"), 2), 1.0)
    queue.remove(first)
    end(queue, first, 2.0)
    assert names(queue.next_live()) == ["other"]


class Listeners:
    """An engine of small capacity whose listeners come, speak, send ahead, cancel and leave."""

    def __init__(self, capacity: int) -> None:
        self.clock = VirtualClock()
        self.model = with_slots(tone.build(), "talker", capacity)
        config = EngineConfig(max_wait_s=None, queue_s=QUEUE_S, max_queued=3)
        self.engine: Engine
        self.events: list[EngineEvent]
        self.executor: HeldExecutor
        self.engine, self.events, self.executor = make_held_engine(self.model, clock=self.clock, config=config)
        self.sent = 0
        self.streams: list[str] = []
        self.utterances: Counter[str] = Counter()
        self.requests: list[SynthesisRequest] = []
        self.gone: set[str] = set()

    def submit(self, stream: str, *, live: bool = True) -> None:
        request = asked(f"r{len(self.requests)}", stream, self.utterances[stream], live=live)
        self.utterances[stream] += 1
        self.requests.append(request)
        self.engine.handle(Submit(request))

    def come(self, *, live: bool) -> None:
        self.streams.append(f"s{len(self.streams)}")
        self.submit(self.streams[-1], live=live)

    def act(self, action: str, number: int) -> None:
        speaking = sorted({each.stream_id for each in self.requests if self.end(each.request_id) is None} - self.gone)
        match action:
            case "come" | "queue":
                self.come(live=action == "come")
            case "ahead" if speaking:
                self.submit(speaking[number % len(speaking)])
            case "run":
                self.executor.run_all()
            case "wait":
                self.clock.advance(number / 50)
            case "cancel" if self.requests:
                self.engine.handle(Cancel(self.requests[number % len(self.requests)].request_id))
            case "leave" if self.streams:
                stream = self.streams[number % len(self.streams)]
                self.gone.add(stream)
                self.engine.handle(EndStream(stream))

    def play(self) -> None:
        for event in self.events[self.sent :]:
            if isinstance(event, AudioReady):
                self.engine.handle(AudioSent(event.request_id, len(event.samples), lead_s=0.5))
        self.sent = len(self.events)

    def step(self) -> None:
        self.engine.step()
        self.play()

    def end(self, request_id: str) -> RequestFinished | None:
        ends = ends_of(self.events, request_id)
        assert len(ends) <= 1
        return ends[0] if ends else None

    def first_in_line(self) -> None:
        """Of the requests of one kind that wait, none was overtaken by a later one."""
        states = self.engine._table.requests
        for live in (True, False):
            kind = [each for each in self.requests if each.live is live and each.utterance_index == 0]
            present = [states[each.request_id] for each in kind if each.request_id in states]
            admitted = [state.admitted for state in present if state.started_s is None or not state.admitted]
            assert admitted == sorted(admitted, reverse=True), "first come, first served"


ACTIONS = ("come", "come", "queue", "ahead", "ahead", "run", "run", "wait", "cancel", "leave")


@given(
    capacity=st.integers(1, 3), actions=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 99)), max_size=40)
)
@settings(max_examples=60)
def test_whatever_listeners_do_every_sentence_ends_once_in_order_and_nothing_is_kept(
    capacity: int, actions: list[tuple[str, int]]
) -> None:
    listeners = Listeners(capacity)
    for action, number in actions:
        listeners.act(action, number)
        listeners.step()
        listeners.first_in_line()
        assert listeners.engine._table._occupied() <= capacity
    for _ in range(len(listeners.requests) + 2):
        run_to_end_held(listeners.engine, listeners.executor)
        listeners.play()
        listeners.clock.advance(1.0)
    ended = {each.request_id: listeners.end(each.request_id) for each in listeners.requests}
    for request in listeners.requests:
        finished = ended[request.request_id]
        assert finished is not None, f"{request.request_id} is lost"
        if finished.error is not None:
            assert isinstance(finished.error, Overloaded)
            assert (finished.error.retry_after_s or 0) >= 1
            assert not request.live, "a listener with patience is never refused"
            assert request.utterance_index == 0, "nor what is sent while it speaks"
    for stream in listeners.streams:
        listeners.engine.handle(EndStream(stream))
    table = listeners.engine._table
    assert slots(listeners.model) == 0
    for kept in (table.queue, table.queue._by_key, table.requests, table._streams, table._unsent):
        assert not kept
    assert table.queue.next_live() is table.queue.next_patient() is None


@given(ahead=st.lists(st.integers(0, 3), min_size=1, max_size=12), capacity=st.integers(1, 2))
@settings(max_examples=25)
def test_the_utterances_of_a_listener_are_made_in_the_order_in_which_they_were_sent(
    ahead: list[int], capacity: int
) -> None:
    listeners = Listeners(capacity)
    for _ in range(4):
        listeners.come(live=True)
    for number in ahead:
        listeners.submit(f"s{number}")
    run_to_end_held(listeners.engine, listeners.executor)
    finished = [event.request_id for event in listeners.events if isinstance(event, RequestFinished)]
    assert len(finished) == 4 + len(ahead)
    for number in range(4):
        own = [each.request_id for each in listeners.requests if each.stream_id == f"s{number}"]
        assert [name for name in finished if name in own] == own


# -- Requests that nobody listens to yet -------------------------------------------------------------------------------


def test_a_patient_request_is_queued_behind_every_listener_and_refused_when_it_has_waited_too_long() -> None:
    listeners = Listeners(1)
    listeners.come(live=True)
    listeners.come(live=False)
    listeners.come(live=True)
    listeners.step()
    assert listeners.engine.status().queued_requests == 1
    assert listeners.engine.next_timeout_s() == QUEUE_S
    listeners.clock.advance(QUEUE_S - 0.1)
    listeners.step()
    assert listeners.end("r1") is None
    listeners.clock.advance(0.2)
    listeners.step()
    refused = listeners.end("r1")
    assert refused is not None
    assert isinstance(refused.error, Overloaded)
    assert "waited 3 s" in refused.error.message
    assert listeners.engine.status().queued_requests == 0
    run_to_end_held(listeners.engine, listeners.executor)
    assert [listeners.end(name) is None for name in ("r0", "r2")] == [False, False]


def test_the_queue_is_bounded_and_each_refused_request_is_given_a_later_time_to_retry() -> None:
    listeners = Listeners(1)
    for _ in range(9):
        listeners.come(live=False)
    listeners.step()
    assert listeners.engine.status().queued_requests == 3
    retry_s = [
        end.error.retry_after_s
        for number in range(9)
        if (end := listeners.end(f"r{number}")) is not None and end.error is not None
    ]
    whole_s = Counter(math.ceil(each or 0) for each in retry_s)
    assert whole_s.total() == 5
    assert max(whole_s.values()) <= 3, "or more would come back at once than the queue has room for"
    assert min(whole_s) >= 1
    run_to_end_held(listeners.engine, listeners.executor)
    assert all(listeners.end(f"r{number}") for number in range(9))


def test_a_queue_that_has_emptied_long_ago_has_no_effect_on_the_time_to_retry() -> None:
    listeners = Listeners(1)
    listeners.come(live=False)
    listeners.come(live=False)
    listeners.engine.handle(EndStream("s1"))
    listeners.step()
    listeners.clock.advance(1000.0)
    for _ in range(4):
        listeners.come(live=False)
    listeners.step()
    end = listeners.end("r5")
    assert end is not None
    assert isinstance(end.error, Overloaded)
    assert end.error.retry_after_s == 1.0


def test_patient_requests_do_not_wait_where_there_is_capacity() -> None:
    listeners = Listeners(2)
    listeners.come(live=False)
    listeners.come(live=False)
    listeners.step()
    assert listeners.engine.status().queued_requests == 0
    assert listeners.engine.status().active_requests == 2


def test_after_the_refusal_of_a_listener_the_queue_leaves_capacity_for_the_retry() -> None:
    for frame_s in (0.01, 0.04):
        check_capacity_for_the_retry(frame_s)


def check_capacity_for_the_retry(frame_s: float) -> None:
    def build(spend: Callable[[float], None]) -> Model:
        return with_slots(tone.build(costs=tone.ToneCosts(a0_s=frame_s), wait_s=spend), "talker", 1)

    events: list[tuple[float, EngineEvent]] = []
    simulation = Simulation(build, emit=lambda new: events.extend((simulation.clock.now_s(), each) for each in new))

    def submit(name: str, *, live: bool) -> None:
        text = "This sentence has the length of a usual one, which is about eighty characters."
        simulation.engine.handle(Submit(replace(asked(name, name, live=live), text=text)))

    for number in range(20):
        simulation.at(0.0, partial(submit, f"file{number}", live=False))
    simulation.at(0.1, partial(submit, "live", live=True))
    simulation.run(0.2)
    ((_at_s, refused),) = [each for each in events if each[1].request_id == "live"]
    assert isinstance(refused, RequestFinished)
    assert refused.error is not None
    retry_s = 0.1 + (refused.error.retry_after_s or 0)
    simulation.at(retry_s, partial(submit, "again", live=True))
    simulation.run(retry_s + 5.0)
    again_s = [at_s for at_s, event in events if event.request_id == "again" and isinstance(event, AudioReady)]
    assert again_s
    assert again_s[0] < retry_s + 10 * frame_s
    files = [at_s for at_s, event in events if event.request_id.startswith("file") and isinstance(event, AudioReady)]
    assert any(0.2 < at_s < retry_s for at_s in files) or frame_s > 0.02, "a fast server does not pause for long"
    assert any(at_s > again_s[-1] for at_s in files), "the queue goes on after it"


def test_a_patient_request_of_several_sentences_is_never_refused_once_it_has_begun() -> None:
    listeners = Listeners(1)
    listeners.come(live=False)
    run_to_end_held(listeners.engine, listeners.executor)
    for _ in range(4):
        listeners.come(live=False)
    listeners.engine.handle(Submit(asked("more", "s0", live=False)))
    run_to_end_held(listeners.engine, listeners.executor)
    (more,) = ends_of(listeners.events, "more")
    assert more.error is None
