"""Configured aliases: for all models that have the voice, or for one; errors for the others."""

from dataclasses import replace

import pytest

from realtime_tts.cli.voice_aliases import check_all_used, info_with_aliases, with_aliases
from realtime_tts.clock import MonotonicClock
from realtime_tts.config.load import InvalidSetting
from realtime_tts.engine.api import EndStream
from realtime_tts.engine.executors.engine_thread import EngineThread
from realtime_tts.engine.models import tone

INFO = tone.info()
CLONER = replace(INFO, voices=(), default_voice=None, fields=INFO.fields | {"ref_audio"}, voice_aliases={})


def test_an_alias_is_for_every_model_that_has_the_voice_or_for_a_named_one() -> None:
    configured = {"nova": "tone_low", "tone.me": "tone_high", "base.me": "anna"}
    own = info_with_aliases(INFO, "tone", configured)
    assert {name: own.find_voice(name) for name in ("nova", "me", "alloy")} == {
        "nova": "tone_low",
        "me": "tone_high",
        "alloy": "tone_high",
    }
    cloner = info_with_aliases(CLONER, "base", configured)
    assert cloner.unaliased("me") == "anna", "an uploaded voice"
    check_all_used(configured, [own, cloner])


def test_an_alias_for_a_voice_that_no_model_has_is_refused() -> None:
    for configured in ({"me": "nobody"}, {"me": "nova"}, {"other.me": "tone_low"}):
        with pytest.raises(InvalidSetting, match=r"http\.voice_aliases"):
            check_all_used(configured, [info_with_aliases(INFO, "tone", configured)])
    with pytest.raises(InvalidSetting, match="nobody"):
        info_with_aliases(INFO, "tone", {"tone.me": "nobody"})


async def test_an_engine_with_aliases_is_the_same_engine() -> None:
    engine = EngineThread(tone.build(), MonotonicClock())
    assert with_aliases(engine, "tone", {}) is engine
    aliased = with_aliases(engine, "tone", {"me": "tone_high"})
    assert (aliased.info.find_voice("me"), "me" in engine.info.voice_aliases) == ("tone_high", False)
    assert aliased.status() == engine.status()
    aliased.send(EndStream("nobody"))
