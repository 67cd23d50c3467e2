"""Engine settings: impossible values are refused when the configuration is made."""

from typing import Any

import pytest

from realtime_tts.engine.config import EngineConfig


def test_impossible_settings_are_refused() -> None:
    cases: list[dict[str, Any]] = [
        {"max_requests": 0},
        {"first_audio_target_s": -0.1},
        {"stage_timeout_s": 0.0},
        {"max_unsent_s": 0.0},
        {"max_wait_s": -1.0},
        {"scheduler": "magic"},
    ]
    for values in cases:
        with pytest.raises(ValueError, match=next(iter(values))):
            EngineConfig(**values)


def test_the_defaults_work() -> None:
    assert EngineConfig().max_requests > 0
