"""Several engines as one: placement, refusals, and losses that no listener notices in what it hears."""

import dataclasses
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.clock import VirtualClock
from realtime_tts.cluster.router import MAX_ATTEMPTS, ReplicatedEngine
from realtime_tts.engine.api import (
    AudioReady,
    AudioSent,
    Cancel,
    EndStream,
    EngineEvent,
    Extend,
    FinishReason,
    ModelInfo,
    RequestFinished,
    Samples,
    Submit,
    TextReady,
    Word,
    WordsReady,
)
from realtime_tts.engine.config import EngineConfig
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import unpack_codes
from realtime_tts.engine.state import REPLY_S
from realtime_tts.errors import EngineUnavailable, Overloaded, SynthesisFailed, WaitedTooLong
from tests.cluster.stepped import SteppedEngine
from tests.fakes import FakeEngine, request

TEXT = "This is a sentence of some length, so that it takes many frames."


class Listeners:
    """Collects the events of all requests; what it receives is sent on at once."""

    def __init__(self, engine: ReplicatedEngine, *, lead_s: float = 1.0) -> None:
        self.events: defaultdict[str, list[EngineEvent]] = defaultdict(list)
        self._engine = engine
        self._lead_s = lead_s

    def on_event(self, event: EngineEvent) -> None:
        self.events[event.request_id].append(event)
        if isinstance(event, AudioReady):
            self._engine.send(AudioSent(event.request_id, len(event.samples), self._lead_s))

    def audio(self, name: str) -> Samples:
        parts = [event.samples for event in self.events[name] if isinstance(event, AudioReady)]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)

    def words(self, name: str) -> list[Word]:
        return [word for event in self.events[name] if isinstance(event, WordsReady) for word in event.words]

    def end(self, name: str) -> RequestFinished:
        (end,) = [event for event in self.events[name] if isinstance(event, RequestFinished)]
        assert self.events[name][-1] is end
        return end


def replicated(count: int, config: EngineConfig | None = None) -> tuple[ReplicatedEngine, list[SteppedEngine]]:
    engine, replicas = ReplicatedEngine(VirtualClock()), [SteppedEngine(config) for _ in range(count)]
    for number, replica in enumerate(replicas):
        engine.add(f"replica-{number}", replica)
    return engine, replicas


def run_all(replicas: list[SteppedEngine]) -> None:
    working = True
    while working:
        working = sum(replica.step() for replica in replicas) > 0


def listeners_of(engine: ReplicatedEngine) -> list[int]:
    return [each.listeners for each in engine.replicas().values()]


def test_listeners_are_spread_and_sentences_of_one_stay_together() -> None:
    engine, replicas = replicated(2)
    heard = Listeners(engine)
    for number in range(6):
        for sentence in range(2):
            asked = request(10 * number + sentence, TEXT, stream=f"s{number}")
            engine.send(Submit(asked), heard.on_event)
    assert listeners_of(engine) == [3, 3]
    for replica in replicas:
        streams = [c.request.stream_id for c in replica.commands if isinstance(c, Submit)]
        assert len(streams) == 2 * len(set(streams)) == 6
    run_all(replicas)
    for name in heard.events:
        assert heard.end(name).reason is FinishReason.COMPLETE


def test_a_listener_s_next_utterance_may_be_served_by_another_replica_when_it_has_heard_all() -> None:
    clock = VirtualClock()
    engine, replicas = ReplicatedEngine(clock), [SteppedEngine(), SteppedEngine()]
    engine.add("a", replicas[0])
    heard = Listeners(engine, lead_s=2.0)
    engine.send(Submit(request(1, TEXT, stream="s")), heard.on_event)
    run_all(replicas)
    engine.add("b", replicas[1])
    engine.drain("a")
    clock.advance(1.0)  # it still listens
    engine.send(Submit(request(2, TEXT, stream="s")), heard.on_event)
    run_all(replicas)
    assert listeners_of(engine) == [1, 0]
    clock.advance(3.0 + REPLY_S)
    engine.send(Submit(dataclasses.replace(request(3, TEXT, stream="s"), utterance_index=1)), heard.on_event)
    run_all(replicas)
    assert listeners_of(engine) == [0, 1]
    assert EndStream("s") in replicas[0].commands
    assert [heard.end(f"r{number}").reason for number in (1, 2, 3)] == [FinishReason.COMPLETE] * 3


def test_a_request_that_has_waited_in_the_queue_of_one_replica_does_not_wait_in_another_one() -> None:
    for error, asked in ((Overloaded("full"), 1), (WaitedTooLong("waited"), 0)):
        engine, replicas = ReplicatedEngine(VirtualClock()), [FakeEngine(), FakeEngine()]
        for name, replica in zip("ab", replicas, strict=True):
            engine.add(name, replica)
        heard = Listeners(engine)
        engine.send(Submit(dataclasses.replace(request(0, TEXT), live=False)), heard.on_event)
        first, other = sorted(replicas, key=lambda each: len(each.requests), reverse=True)
        first.finish(0, error)
        assert len(other.requests) == asked, error
        if not asked:
            assert heard.end("r0").error is error


def test_a_refused_listener_asks_the_others_and_gets_the_soonest_retry_of_all() -> None:
    config = EngineConfig(max_requests=1)
    engine, replicas = replicated(3, config)
    heard = Listeners(engine)
    for number in range(4):
        engine.send(Submit(request(number, TEXT, stream=f"s{number}")), heard.on_event)
    run_all(replicas)
    error = heard.end("r3").error
    assert isinstance(error, Overloaded)
    for number in range(3):
        assert heard.end(f"r{number}").reason is FinishReason.COMPLETE


def test_a_lost_replica_s_sentences_continue_elsewhere_to_the_bit() -> None:
    for steps in (1, 3, 6, 9):
        engine, replicas = replicated(2)
        heard = Listeners(engine)
        for number in range(4):
            engine.send(Submit(request(number, TEXT, stream=f"s{number}")), heard.on_event)
        for _ in range(steps):
            for replica in replicas:
                replica.step()
        replicas[0].lose()
        assert listeners_of(engine) == [0, 4]
        run_all(replicas)
        for number in range(4):
            name = f"r{number}"
            expected = request(number, TEXT)
            assert np.array_equal(heard.audio(name), tone.render(expected)), (steps, name)
            assert heard.words(name) == list(tone.words(expected)), (steps, name)
            assert heard.end(name).reason is FinishReason.COMPLETE


def test_a_lost_sentence_continues_from_its_codes_and_only_the_rest_is_made() -> None:
    engine, replicas = replicated(2)
    heard = Listeners(engine)
    engine.send(Submit(request(0, TEXT)), heard.on_event)
    while len(heard.audio("r0")) < 20 * tone.SAMPLES_PER_FRAME:
        replicas[0].step()
    received = len(heard.audio("r0")) // tone.SAMPLES_PER_FRAME
    replicas[0].lose()
    (submitted,) = [c.request for c in replicas[1].commands if isinstance(c, Submit)]
    assert submitted.resume is not None
    frames = unpack_codes(submitted.resume.codes, 3)
    assert len(frames) >= received
    assert np.array_equal(frames, tone.codes(request(0, TEXT))[: len(frames)])
    steps = 0
    while len(heard.audio("r0")) == received * tone.SAMPLES_PER_FRAME:
        assert replicas[1].step()
        steps += 1
    assert steps <= 4, "one for the Talker, and one for each chunk of 25 frames"
    run_all(replicas)
    assert np.array_equal(heard.audio("r0"), tone.render(request(0, TEXT)))


def test_a_sentence_that_is_lost_twice_continues_from_the_codes_of_both_replicas() -> None:
    engine, replicas = replicated(3)
    heard = Listeners(engine)
    engine.send(Submit(request(0, TEXT)), heard.on_event)
    for lost, frames in enumerate((10, 30)):
        while len(heard.audio("r0")) < frames * tone.SAMPLES_PER_FRAME:
            replicas[lost].step()
        replicas[lost].lose()
    run_all(replicas)
    assert np.array_equal(heard.audio("r0"), tone.render(request(0, TEXT)))


def test_an_answer_that_is_made_again_is_written_once() -> None:
    engine, replicas = (
        ReplicatedEngine(VirtualClock()),
        [SteppedEngine(build=lambda: tone.build(thinker=True)) for _ in range(2)],
    )
    for name, replica in zip("ab", replicas, strict=True):
        engine.add(name, replica)
    heard = Listeners(engine)
    engine.send(Submit(request(0, TEXT)), heard.on_event)
    for _ in range(9):
        replicas[0].step()
    replicas[0].lose()
    run_all(replicas)
    written = "".join(event.text for event in heard.events["r0"] if isinstance(event, TextReady))
    assert written == tone.answer(TEXT)
    assert heard.end("r0").reason is FinishReason.COMPLETE


def test_a_resumed_sentence_is_not_refused_by_a_full_replica() -> None:
    engine, replicas = ReplicatedEngine(VirtualClock()), [SteppedEngine(), SteppedEngine(EngineConfig(max_wait_s=0.0))]
    for number, replica in enumerate(replicas):
        engine.add(f"replica-{number}", replica)
    heard = Listeners(engine)
    for number in range(2):
        engine.send(Submit(request(number, TEXT, stream=f"s{number}")), heard.on_event)
    for _ in range(6):
        for replica in replicas:
            replica.step()
    replicas[0].lose()
    resumed = [c.request.resume for c in replicas[1].commands if isinstance(c, Submit)][-1]
    assert resumed is not None
    assert resumed.samples_received == resumed.samples_sent > 0
    run_all(replicas)
    assert heard.end("r0").reason is FinishReason.COMPLETE


def test_without_a_replica_requests_end_as_unavailable_and_the_engine_recovers() -> None:
    engine, replicas = replicated(1)
    heard = Listeners(engine)
    engine.send(Submit(request(0, TEXT)), heard.on_event)
    replicas[0].lose()
    assert isinstance(heard.end("r0").error, EngineUnavailable)
    assert not engine.status().ready
    engine.send(Submit(request(1, TEXT)), heard.on_event)
    assert isinstance(heard.end("r1").error, EngineUnavailable)
    replicas[0].come_back()
    assert engine.status().ready
    engine.send(Submit(request(2, TEXT)), heard.on_event)
    run_all(replicas)
    assert heard.end("r2").reason is FinishReason.COMPLETE


def test_a_sentence_that_kills_its_replica_is_tried_three_times() -> None:
    engine = ReplicatedEngine(VirtualClock())
    killed: list[SteppedEngine] = []
    replicas: list[SteppedEngine] = []

    def killed_by(index: int) -> SteppedEngine:
        return SteppedEngine(
            on_submit=lambda command: killed.append(replicas[index]) if "poison" in command.request.text else None
        )

    replicas.extend(killed_by(index) for index in range(5))
    for number, replica in enumerate(replicas):
        engine.add(f"replica-{number}", replica)
    heard = Listeners(engine)
    engine.send(Submit(request(0, "This is poison.")), heard.on_event)
    losses = 0
    while killed:
        killed.pop().lose()
        losses += 1
    assert losses == MAX_ATTEMPTS
    assert isinstance(heard.end("r0").error, SynthesisFailed)
    assert sum(not replica.is_lost for replica in replicas) == 2


def test_a_removed_replica_s_listeners_move_and_it_keeps_nothing() -> None:
    engine, replicas = replicated(2)
    heard = Listeners(engine)
    for number in range(4):
        engine.send(Submit(request(number, TEXT, stream=f"s{number}")), heard.on_event)
    for _ in range(5):
        for replica in replicas:
            replica.step()
    engine.remove("replica-0")
    run_all(replicas)
    assert replicas[0].requests == 0
    for number in range(4):
        assert np.array_equal(heard.audio(f"r{number}"), tone.render(request(number, TEXT)))


def test_a_model_that_takes_a_seed_gets_one_so_that_a_sentence_can_be_made_again() -> None:
    class Seeded(SteppedEngine):
        @property
        def info(self) -> ModelInfo:
            return dataclasses.replace(tone.info(), fields=tone.info().fields | {"seed"})

    replica = Seeded()
    engine = ReplicatedEngine(VirtualClock())
    engine.add("a", replica)
    asked = request(0, TEXT)
    engine.send(Submit(asked), Listeners(engine).on_event)
    chosen = dataclasses.replace(asked, request_id="r1", sampling=dataclasses.replace(asked.sampling, seed=7))
    engine.send(Submit(chosen), Listeners(engine).on_event)
    drawn, own = (c.request.sampling for c in replica.commands if isinstance(c, Submit))
    assert (drawn.seed is not None, drawn.seed_is_drawn) == (True, True)
    assert (own.seed, own.seed_is_drawn) == (7, False)


def test_a_replica_of_another_model_is_not_added() -> None:
    class Other(SteppedEngine):
        @property
        def info(self) -> ModelInfo:
            return dataclasses.replace(tone.info(), name="other")

    engine, _replicas = replicated(1)
    with pytest.raises(ValueError, match="has another model: other, not tone"):
        engine.add("b", Other())


Action = tuple[str, int]

ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["step", "step", "step", "submit", "lose", "come_back", "cancel", "extend", "end_stream"]),
        st.integers(0, 2),
    ),
    max_size=60,
)


class Client:
    """Applies random actions of listeners to an engine over three replicas."""

    def __init__(self) -> None:
        self.engine, self.replicas = replicated(3)
        self.heard = Listeners(self.engine)
        self.texts: list[str] = []
        self._open: set[int] = set()

    def apply(self, action: str, number: int) -> None:
        match action:
            case "step":
                self.replicas[number].step()
            case "lose":
                self.replicas[number].lose()
            case "come_back" if self.replicas[number].is_lost:
                self.replicas[number].come_back()
            case "submit":
                self._submit(number)
            case "extend":
                self.complete_texts(" And more.")
            case "cancel":
                self._open.discard(number)
                self.engine.send(Cancel(f"r{number}"))
            case "end_stream":
                self.engine.send(EndStream(f"s{number}"))

    def _submit(self, stream: int) -> None:
        number = len(self.texts)
        asked = request(number, TEXT, stream=f"s{stream}")
        if number % 2:
            self._open.add(number)
        self.engine.send(Submit(dataclasses.replace(asked, text_complete=number % 2 == 0)), self.heard.on_event)
        self.texts.append(TEXT)

    def complete_texts(self, text: str) -> None:
        for number in sorted(self._open):
            self.texts[number] += text
            self.engine.send(Extend(f"r{number}", text, True))
        self._open.clear()


@given(actions=ACTIONS)
@settings(deadline=None, max_examples=60)
def test_whatever_is_lost_when_each_sample_and_word_arrives_once_and_in_order(actions: list[Action]) -> None:
    client = Client()
    for action in actions:
        client.apply(*action)
    client.complete_texts("")
    for number in range(3):
        client.apply("come_back", number)
    run_all(client.replicas)
    for number, text in enumerate(client.texts):
        name, expected = f"r{number}", request(number, text)
        end = client.heard.end(name)
        if end.reason is FinishReason.COMPLETE:
            assert np.array_equal(client.heard.audio(name), tone.render(expected))
            assert client.heard.words(name) == list(tone.words(expected))
        else:
            assert end.reason in (FinishReason.CANCELLED, FinishReason.ERROR)
    for number in range(3):
        client.apply("end_stream", number)
    run_all(client.replicas)
    assert listeners_of(client.engine) == [0, 0, 0]
    assert [replica.requests for replica in client.replicas] == [0, 0, 0]
    assert client.engine.remembered == 0
