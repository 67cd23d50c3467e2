"""The rule for rejected configs: what it refuses, and when it ends a session."""

import pytest

from realtime_tts.errors import ConfigNotAccepted, InvalidConfig, UnknownVoice
from realtime_tts.session.config_gate import ConfigGate

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
