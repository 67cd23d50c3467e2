"""The rule for rejected configs: what it refuses, and when it ends a session."""

import dataclasses
from typing import Any

import pytest

from realtime_tts.errors import ConfigNotAccepted, InvalidConfig, UnknownVoice
from realtime_tts.frontends.native.messages import ServerError
from realtime_tts.session.config_gate import ConfigGate
from realtime_tts.session.events import Closed
from realtime_tts.session.inputs import Configure
from realtime_tts.session.limits import SessionLimits
from realtime_tts.session.session import Session
from tests.session.harness import DONE, FLUSH, INFO, STREAM, Harness, configured

REJECTION = UnknownVoice("there is none of this name", param="voice")


def test_text_is_allowed_without_any_config_and_after_an_accepted_one() -> None:
    gate = ConfigGate(10.0)
    gate.check()
    gate.accept()
    gate.reject(REJECTION, 0.0, ends_session=True)
    gate.check()
    assert gate.timeout(1e9) is None


def test_a_rejected_config_refuses_text_and_the_error_has_its_field() -> None:
    gate = ConfigGate(10.0)
    gate.reject(InvalidConfig("must be from 0.25 to 4", param="speed"), 0.0, ends_session=True)
    gate.reject(REJECTION, 1.0, ends_session=True)
    with pytest.raises(ConfigNotAccepted, match="rejected: voice: there is none") as caught:
        gate.check()
    assert caught.value.close_code is None
    gate.accept()
    gate.check()


def test_the_session_ends_after_a_time_counted_from_the_first_rejection() -> None:
    gate = ConfigGate(10.0)
    gate.reject(REJECTION, 5.0, ends_session=True)
    gate.reject(REJECTION, 9.0, ends_session=True)
    assert gate.deadline_s == 15.0
    assert gate.timeout(14.9) is None
    error = gate.timeout(15.0)
    assert error is not None
    assert error.close_code == 1008


def test_a_session_that_has_begun_to_speak_is_not_ended() -> None:
    gate = ConfigGate(10.0)
    gate.reject(REJECTION, 5.0, ends_session=False)
    assert gate.is_closed
    assert gate.timeout(1e9) is None


# -- In a session -----------------------------------------------------------------------------------------------------


def test_after_a_rejected_first_config_no_text_is_spoken_before_one_is_accepted() -> None:
    rejected: list[tuple[dict[str, Any], str]] = [
        ({"voice": "nobody"}, "voice"),
        ({"response_format": "tape"}, "response_format"),
        ({"sample_rate": 1}, "sample_rate"),
        ({"language": "Klingon"}, "language"),
        ({"task_type": "Base"}, "task_type"),
        ({"voice": 7}, "voice"),
        ({"streaming_mode": "fast"}, "streaming_mode"),
    ]
    for fields, field in rejected:
        harness = Harness()
        harness.client({"type": "session.config", **fields})
        harness.text("Hello there.")
        harness.client({"type": "input.commit"}, FLUSH, DONE)
        first, *others = harness.of(ServerError)
        assert (first.param, first.fatal) == (field, False), fields
        assert first.message.startswith(f"{field}: "), fields
        assert "nothing of this `session.config` was applied, and text is refused" in first.message, fields
        assert [error.code for error in others] == ["config_rejected"] * 3, fields
        assert all(field in error.message for error in others), fields
        assert not harness.submitted, fields
        harness.client({**STREAM, "voice": "tone_high"})
        harness.text("Hello there.")
        harness.client(DONE)
        assert [request.voice for request in harness.submitted] == ["tone_high"], fields


def test_a_session_whose_first_config_was_rejected_is_closed_after_a_time() -> None:
    """Clients of the public servers wait for that: they never send another config."""
    harness = Harness(SessionLimits(config_s=10.0))
    harness.client({"type": "session.config", "voice": "nobody"})
    harness.advance_to(6.0)
    harness.client({"type": "session.config", "voice": "nobody"})
    harness.text("Hello there.")
    harness.advance_to(9.9)
    assert not harness.session.closed
    harness.advance_to(10.0)
    assert harness.sent[-1] == Closed(1008, "config_rejected")
    assert harness.of(ServerError)[-1].fatal


def test_a_rejected_config_after_an_accepted_one_changes_nothing() -> None:
    harness = configured()
    harness.client({"type": "session.config", "voice": "nobody"})
    (error,) = harness.of(ServerError)
    assert error.message.endswith("nothing of this `session.config` was applied")
    harness.text("Hello there.")
    harness.advance_to(60.0)
    assert len(harness.submitted) == 1
    assert not harness.session.closed


def test_a_rejected_config_does_not_interrupt_an_utterance_that_began_without_any() -> None:
    harness = Harness()
    harness.text("Half of ")
    harness.client({"type": "session.config", "voice": "nobody"})
    harness.text("a sentence.")
    harness.client(DONE)
    harness.text("Another.")
    harness.advance_to(60.0)
    harness.complete_all()
    assert [request.text for request in harness.submitted] == ["Half of a sentence."]
    assert [error.code for error in harness.of(ServerError)] == ["unknown_voice", "config_rejected"]
    assert not harness.session.closed


def test_text_that_was_held_for_a_recording_is_refused_if_the_recording_is() -> None:
    harness = Harness(info=dataclasses.replace(INFO, fields=frozenset({"ref_audio", "ref_text"})))
    harness.client({**STREAM, "ref_audio": "x", "ref_text": "Hello."})
    harness.text("Hello there.")
    harness.client(DONE)
    harness.execute(harness.session.on_reference(InvalidConfig("is not audio", param="ref_audio"), 0.0))
    assert [error.code for error in harness.of(ServerError)] == ["invalid_config"] + ["config_rejected"] * 2
    assert not harness.submitted


def test_a_rejected_config_does_not_choose_the_model() -> None:
    other = dataclasses.replace(INFO, name="other")
    session = Session("sid", {"tone": INFO, "other": other}, SessionLimits(), now_s=0.0, expires_at_unix_s=0.0)
    session.receive(Configure(model="other", voice="nobody"), 0.0)
    assert session.model == "tone"
    session.receive(Configure(model="other", voice="tone_low"), 0.0)
    assert session.model == "other"
