"""Text lead: tokens ahead of the listener, and the engine that an underrun is due to."""

import pytest

from realtime_tts.engine.thinking.text_lead import TextLead, Underrun

FRAME_S = 0.08


def check(underrun: Underrun | None, cause: str, seconds: float) -> None:
    assert underrun is not None
    assert underrun.cause == cause
    assert underrun.seconds == pytest.approx(seconds)


def test_the_lead_is_the_audio_of_all_tokens_less_what_was_played() -> None:
    lead = TextLead(FRAME_S)
    lead.on_tokens(10, 0.0)
    assert lead.lead_s(0.0) == pytest.approx(0.8)
    assert lead.on_sent(0.4, 0.4, 1.0) is None
    assert lead.lead_s(1.0) == pytest.approx(0.8)  # nothing of it was played yet
    assert lead.lead_s(1.3) == pytest.approx(0.5)
    assert lead.lead_s(9.0) == pytest.approx(0.4)  # the listener has run dry after 0.4 s
    lead.on_playout_end(0.0, 1.1)
    assert lead.lead_s(1.1) == pytest.approx(0.4)


def test_a_gap_is_due_to_the_thinker_if_the_tokens_of_the_late_chunk_were_not_written() -> None:
    lead = TextLead(FRAME_S)
    lead.on_tokens(2, 0.0)
    lead.on_sent(0.16, 0.16, 1.0)
    lead.on_tokens(2, 1.5)
    check(lead.on_sent(0.16, 0.16, 1.6), "thinker", 0.44)


def test_a_gap_is_due_to_the_speech_engine_if_they_were() -> None:
    lead = TextLead(FRAME_S)
    lead.on_tokens(4, 0.0)
    lead.on_sent(0.16, 0.16, 1.0)
    check(lead.on_sent(0.16, 0.16, 1.6), "speech", 0.44)


def test_after_the_end_of_the_text_every_gap_is_due_to_the_speech_engine() -> None:
    lead = TextLead(FRAME_S)
    lead.on_tokens(1, 0.0)
    lead.on_text_end(0.0)
    lead.on_sent(0.08, 0.08, 1.0)
    check(lead.on_sent(0.08, 0.08, 2.0), "speech", 0.92)


def test_audio_in_time_leaves_no_gap() -> None:
    lead = TextLead(FRAME_S)
    assert lead.on_sent(0.08, 0.08, 1.0) is None
    assert lead.on_sent(0.08, 0.12, 1.04) is None
