"""Settings that cannot work are refused where they are made."""

from typing import Any

import pytest

from realtime_tts.engine.config import EngineConfig


@pytest.mark.parametrize(
    "values",
    [
        {"max_requests": 0},
        {"first_audio_target_s": -0.1},
        {"stage_timeout_s": 0.0},
        {"max_unrouted_s": 0.0},
        {"max_wait_s": -1.0},
        {"scheduler": "magic"},
        {"compare": ("magic",)},
        {"compare": ("policy_c", "policy_c")},
        {"compare": ("deadline",)},
        {"compare": ("policy_c",), "scheduler": "policy_c"},
    ],
    ids=str,
)
def test_impossible_settings_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(values))):
        EngineConfig(**values)


def test_the_defaults_work() -> None:
    assert EngineConfig().max_requests > 0
