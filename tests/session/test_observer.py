"""An observer sees every event that was sent, once."""

import asyncio

from realtime_tts.clock import MonotonicClock
from realtime_tts.session.events import Cancelled, SentenceDone, SessionEvent, UtteranceDone
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.observer import NoObserver, SessionObserver
from tests.fakes import FakeClient, FakeEngine, until
from tests.session.test_runner import SOUND, make_runner


class Recorder(NoObserver):
    def __init__(self) -> None:
        self.events: list[SessionEvent] = []

    def on_event(self, event: SessionEvent, now_s: float) -> None:
        self.events.append(event)

    def of(self, kind: type[SessionEvent]) -> list[SessionEvent]:
        return [event for event in self.events if isinstance(event, kind)]


async def test_sentences_utterances_and_cancels_are_observed_once_with_their_figures() -> None:
    recorder = Recorder()
    observer: SessionObserver = recorder
    client, engine = FakeClient(), FakeEngine()
    runner = make_runner(client, engine, SessionLimits(), MonotonicClock(), observer=observer)
    serving = asyncio.create_task(runner.run())
    client.says(type="session.config", response_format="pcm", stream_audio=True, continuity_threshold_ms=50)
    client.says(type="input.text", text="Hello. Goodbye.\n")
    await until(lambda: len(engine.requests) == 2)
    engine.speak(0, SOUND)
    engine.finish(0)
    await until(lambda: len(recorder.of(SentenceDone)) == 1)
    client.says(type="input.cancel", playback_offset_ms=0)
    await until(lambda: len(recorder.of(UtteranceDone)) == 1)
    client.hangs_up()
    await serving
    (sentence,) = recorder.of(SentenceDone)
    assert isinstance(sentence, SentenceDone)
    assert sentence.reason == "complete"
    (utterance,) = recorder.of(UtteranceDone)
    assert isinstance(utterance, UtteranceDone)
    assert (utterance.cancelled, utterance.continuity_threshold_s) == (True, 0.05)
    (cancelled,) = recorder.of(Cancelled)
    assert isinstance(cancelled, Cancelled)
    assert cancelled.audio_sent_s - cancelled.audio_played_s == len(SOUND) / 24_000
