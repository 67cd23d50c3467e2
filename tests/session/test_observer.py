"""Session observers: each sent event is observed once."""

import asyncio

from realtime_tts.clock import MonotonicClock
from realtime_tts.session.events import Cancelled, SentenceDone, SessionEvent, UtteranceDone
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.observer import NoObserver, SessionObserver
from tests.fakes import FakeClient, FakeEngine, until
from tests.session.harness import AUDIO, STREAM, make_runner


class Recorder(NoObserver):
    def __init__(self) -> None:
        self.events: list[SessionEvent] = []

    def on_event(self, event: SessionEvent, now_s: float) -> None:
        self.events.append(event)

    def of(self, kind: type[SessionEvent]) -> list[SessionEvent]:
        return [event for event in self.events if isinstance(event, kind)]


async def test_sentences_utterances_and_cancels_are_observed_once() -> None:
    recorder = Recorder()
    observer: SessionObserver = recorder
    client, engine = FakeClient(), FakeEngine()
    runner = make_runner(client, engine, SessionLimits(), MonotonicClock(), observer=observer)
    serving = asyncio.create_task(runner.run())
    client.sends(**STREAM, continuity_threshold_ms=50)
    client.sends(type="input.text", text="Hello. Goodbye.\n")
    await until(lambda: len(engine.requests) == 2)
    engine.emit_audio(0, AUDIO)
    engine.finish(0)
    await until(lambda: len(recorder.of(SentenceDone)) == 1)
    client.sends(type="input.cancel", playback_offset_ms=0)
    await until(lambda: len(recorder.of(UtteranceDone)) == 1)
    client.disconnects()
    await serving
    (sentence,) = recorder.of(SentenceDone)
    assert isinstance(sentence, SentenceDone)
    assert sentence.reason == "complete"
    (utterance,) = recorder.of(UtteranceDone)
    assert isinstance(utterance, UtteranceDone)
    assert (utterance.cancelled, utterance.continuity_threshold_s) == (True, 0.05)
    (cancelled,) = recorder.of(Cancelled)
    assert isinstance(cancelled, Cancelled)
    assert cancelled.audio_sent_s - cancelled.audio_played_s == len(AUDIO) / 24_000
