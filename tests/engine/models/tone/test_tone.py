"""Test model: its options."""

import pytest

from realtime_tts.engine.models import tone
from realtime_tts.errors import ModelNotUsable


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(ModelNotUsable, match="there are free"):
        tone.build(profile="abacus")


def test_a_thinker_is_a_stage_on_a_lane_of_its_own_where_stages_share_none() -> None:
    assert [(spec.name, spec.lane) for spec in tone.build(thinker=True).specs] == [
        ("thinker", "thinker"),
        ("talker", "talker"),
        ("code2wav", "code2wav"),
    ]
    assert tone.build(thinker=True, shared_lane=True).lanes == ("talker",)
    assert tone.build(thinker=True, replicas=2).lanes == ("thinker", "talker-0", "talker-1", "code2wav-0", "code2wav-1")


def test_words_of_an_answer_have_no_times() -> None:
    assert "word_timestamps" in tone.info().fields
    assert "word_timestamps" not in tone.build(thinker=True).info.fields


def test_a_model_without_costs_does_not_sleep() -> None:
    tone.wait_cost_s(0.0)
    tone.wait_cost_s(1e-6)
