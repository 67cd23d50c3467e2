"""Whoever counts is told of every sentence, utterance and barge-in, once."""

import asyncio

from realtime_tts.clock import MonotonicClock
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.messages import AudioDone, SessionDone
from realtime_tts.session.observer import NoObserver, SessionObserver
from realtime_tts.session.runner import Connection
from tests.fakes import FakeEngine, FakeTransport, until
from tests.session.test_runner import SOUND, make_session


class Counting(NoObserver):
    def __init__(self) -> None:
        self.sentences: list[AudioDone] = []
        self.utterances: list[tuple[SessionDone, float]] = []
        self.barge_ins: list[tuple[float, float]] = []

    def sentence_done(self, done: AudioDone) -> None:
        self.sentences.append(done)

    def utterance_done(self, done: SessionDone, threshold_ms: float) -> None:
        self.utterances.append((done, threshold_ms))

    def cancelled(self, latency_s: float, wasted_audio_s: float) -> None:
        self.barge_ins.append((latency_s, wasted_audio_s))


async def test_each_is_told_once_with_its_figures() -> None:
    counting: SessionObserver = Counting()
    assert isinstance(counting, Counting)
    client, engine = FakeTransport(), FakeEngine()
    connection = Connection(client, engine, make_session(), MonotonicClock(), SessionLimits(), observer=counting)
    serving = asyncio.create_task(connection.run())
    client.says(type="session.config", response_format="pcm", stream_audio=True, continuity_threshold_ms=50)
    client.says(type="input.text", text="Hello. Goodbye.\n")
    await until(lambda: len(engine.requests) == 2)
    engine.speak(0, SOUND)
    engine.finish(0)
    await until(lambda: len(counting.sentences) == 1)
    client.says(type="input.cancel", playback_offset_ms=0)
    await until(lambda: len(counting.utterances) == 1)
    client.hangs_up()
    await serving
    assert [done.reason for done in counting.sentences] == ["complete"]
    ((done, threshold_ms),) = counting.utterances
    assert (done.reason, threshold_ms) == ("cancelled", 50)
    ((latency_s, wasted_s),) = counting.barge_ins
    assert latency_s >= 0
    assert wasted_s == len(SOUND) / 24_000
