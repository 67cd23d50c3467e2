"""Limits of a session: which values are valid."""

import dataclasses

import pytest

from realtime_tts.session.limits import SessionLimits


def test_every_limit_is_positive() -> None:
    for field in dataclasses.fields(SessionLimits):
        for value in (-1,) if field.name == "sentences_ahead" else (-1, 0):
            with pytest.raises(ValueError, match=f"{field.name} must be positive"):
                dataclasses.replace(SessionLimits(), **{field.name: value})


def test_no_sentence_ahead_is_valid() -> None:
    assert SessionLimits(sentences_ahead=0).sentences_ahead == 0
