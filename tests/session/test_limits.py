"""Limits that would hang or refuse everything are no limits."""

import dataclasses

import pytest

from realtime_tts.session.limits import SessionLimits


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(SessionLimits)])
def test_every_limit_is_positive(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        dataclasses.replace(SessionLimits(), **{field: -1})
    if field != "sentences_ahead":
        with pytest.raises(ValueError, match=field):
            dataclasses.replace(SessionLimits(), **{field: 0})


def test_nothing_ahead_is_a_choice() -> None:
    assert SessionLimits(sentences_ahead=0).sentences_ahead == 0
