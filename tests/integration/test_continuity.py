"""Reported continuity: gaps of playback that the server causes, and only those."""

import numpy as np
import pytest

from realtime_tts.engine.api import AudioReady
from realtime_tts.frontends.native.messages import AudioDone, SessionDone
from tests.session.harness import DONE, configured


def test_a_gap_within_a_sentence_is_an_underrun() -> None:
    harness = configured()
    harness.text("A sentence of some length here. ")
    harness.client(DONE)
    (request,) = harness.submitted
    harness.now_s = 0.2
    harness.audio(request, slice(0, 5))  # 0.4 s of audio
    assert harness.playout_end_s == pytest.approx(0.6)
    harness.now_s = 0.9
    harness.audio(request, slice(5, None))
    harness.finish(request)
    metrics = harness.of(AudioDone)[0].metrics
    assert metrics.ttfp_ms == pytest.approx(200.0)
    assert metrics.max_underrun_ms == pytest.approx(300.0)
    assert (metrics.underrun_count, metrics.continuity_ok) == (1, False)
    continuity = harness.of(SessionDone)[0].continuity
    assert continuity.max_underrun_ms == pytest.approx(300.0)
    assert continuity.continuity_ok is False


def test_a_wait_for_the_client_s_text_is_text_starvation_and_no_underrun() -> None:
    harness = configured()
    harness.text("A first sentence. And ")
    harness.complete(harness.submitted[0])
    harness.now_s = 30.0  # long after the playback of the first sentence
    harness.text("a second. ")
    harness.client(DONE)
    harness.now_s = 30.25
    harness.complete(harness.submitted[1])
    continuity = harness.of(SessionDone)[0].continuity
    assert (continuity.underrun_count, continuity.max_underrun_ms) == (0, 0.0)
    assert continuity.text_starvation_ms > 25_000
    assert harness.of(AudioDone)[1].metrics.ttfp_ms == pytest.approx(250.0)


def test_a_wait_for_the_server_between_sentences_is_an_underrun() -> None:
    harness = configured()
    harness.text("A first sentence. And a second. ")
    harness.client(DONE)
    harness.complete(harness.submitted[0])
    end_s = harness.playout_end_s
    harness.now_s = end_s + 0.5
    harness.complete(harness.submitted[1])
    continuity = harness.of(SessionDone)[0].continuity
    assert continuity.max_underrun_ms == pytest.approx(500.0, abs=0.1)


def test_time_to_first_audible_sample_includes_leading_silence() -> None:
    harness = configured()
    harness.text("Hello there. ")
    harness.client(DONE)
    (request,) = harness.submitted
    silence, tone = np.zeros(2400, np.float32), np.full(2400, 0.5, np.float32)
    harness.now_s = 0.1
    harness.execute(harness.session.on_engine(AudioReady(request.request_id, silence), 0.1))
    harness.execute(harness.session.on_engine(AudioReady(request.request_id, tone), 0.1))
    harness.finish(request)
    assert harness.of(AudioDone)[0].metrics.ttfp_ms == pytest.approx(100.0)
    assert harness.of(AudioDone)[0].metrics.ttfa_ms == pytest.approx(200.0)
    assert harness.of(SessionDone)[0].continuity.ttfa_ms == pytest.approx(200.0)


def test_continuity_does_not_apply_to_a_single_packet() -> None:
    harness = configured()
    harness.text("Hello there. ")
    harness.client(DONE)
    harness.complete_all()
    assert harness.of(AudioDone)[0].metrics.continuity_ok is None


def test_a_pause_between_packets_is_no_underrun_during_playback_of_the_previous_sentence() -> None:
    harness = configured()
    harness.text("A first sentence that lasts for quite a while. And a second. ")
    harness.client(DONE)
    harness.now_s = 0.1
    harness.complete(harness.submitted[0])
    end_s = harness.playout_end_s
    harness.now_s = 0.2
    harness.audio(harness.submitted[1], slice(0, 1))
    harness.now_s = end_s  # the playback of its first frame begins now: in time
    harness.audio(harness.submitted[1], slice(1, None))
    harness.finish(harness.submitted[1])
    second = harness.of(AudioDone)[1].metrics
    assert (second.underrun_count, second.max_underrun_ms) == (0, 0.0)
    assert second.continuity_ok is True


def test_the_continuity_of_an_utterance_sent_ahead_is_measured_by_its_playback() -> None:
    harness = configured()
    for text in ("A first utterance that lasts for quite a while.", "And a second one."):
        harness.text(text)
        harness.client(DONE)
    harness.complete(harness.submitted[0])
    end_s = harness.playout_end_s
    harness.audio(harness.submitted[1], slice(0, 1))
    harness.now_s = end_s + 0.05
    harness.audio(harness.submitted[1], slice(1, None))
    harness.finish(harness.submitted[1])
    assert harness.of(SessionDone)[1].continuity.max_underrun_ms == 0.0
