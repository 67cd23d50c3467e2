"""Engines by name: the selected one, the schedulers of a model, and the common status."""

from dataclasses import replace

import pytest

from realtime_tts.engine.api import EngineStatus
from realtime_tts.errors import ModelNotFound, UnknownScheduler
from realtime_tts.frontends.engines import Engines
from tests.fakes import FakeEngine


class ReportingEngine(FakeEngine):
    def __init__(self, status: EngineStatus) -> None:
        super().__init__()
        self._status = status

    def status(self) -> EngineStatus:
        return self._status


READY = EngineStatus(ready=True, reason="ready", active_requests=2, waiting_requests=1, queued_requests=1, capacity=7)
STUCK = EngineStatus(ready=False, reason="talker is stuck", active_requests=1, waiting_requests=1, capacity=3)


def engines(*names: str, default_scheduler: str = "deadline") -> Engines:
    return Engines({name: ReportingEngine(READY) for name in names}, default_scheduler)


def test_the_first_engine_is_the_default_and_one_is_required() -> None:
    named = engines("kokoro", "tone")
    assert (named.default_name, list(named), len(named)) == ("kokoro", ["kokoro", "tone"], 2)
    assert named.default is named["kokoro"]
    with pytest.raises(ValueError, match="at least one"):
        Engines({})


def test_a_scheduler_is_part_of_the_name_or_the_default_one() -> None:
    named = engines("kokoro", "tone", "kokoro@policy_c", "tone@edf_only", default_scheduler="round_robin")
    assert [named.scheduler_of(name) for name in named] == ["round_robin", "round_robin", "policy_c", "edf_only"]
    assert named.schedulers() == ["round_robin", "policy_c"]


def test_a_url_selects_by_model_by_scheduler_or_by_both() -> None:
    named = engines("kokoro", "tone", "kokoro@policy_c", "tone@edf_only")
    for query, expected in (
        ({}, "kokoro"),
        ({"model": "tone"}, "tone"),
        ({"model": "tone@edf_only"}, "tone@edf_only"),
        ({"scheduler": "policy_c"}, "kokoro@policy_c"),
        ({"scheduler": "deadline"}, "kokoro"),
        ({"model": "tone", "scheduler": "edf_only"}, "tone@edf_only"),
        ({"model": "tone@edf_only", "scheduler": "deadline"}, "tone"),
    ):
        assert named.named_by_url(query) == expected, query
    for model in ("gpt", "", "x" * 500, "\ud800"):
        with pytest.raises(ModelNotFound, match="kokoro, tone, kokoro@policy_c") as unknown:
            named.named_by_url({"model": model})
        assert len(unknown.value.message) < 200
    for scheduler in ("edf_only", "", "Policy_C", "x" * 500):
        with pytest.raises(UnknownScheduler, match="deadline, policy_c"):
            named.named_by_url({"scheduler": scheduler})


def test_another_engine_can_be_the_default() -> None:
    named = engines("kokoro", "tone", "kokoro@policy_c")
    assert named.with_default("kokoro") is named
    other = named.with_default("tone")
    assert list(other) == list(other.infos) == ["tone", "kokoro", "kokoro@policy_c"]
    assert other.default is named["tone"]


def test_all_engines_are_ready_together_and_requests_are_added_up() -> None:
    assert Engines({"one": ReportingEngine(READY), "two": ReportingEngine(READY)}).status() == replace(
        READY, active_requests=4, waiting_requests=2, queued_requests=2
    )
    for default, other, reason in ((READY, STUCK, "two: talker is stuck"), (STUCK, READY, "talker is stuck")):
        status = Engines({"one": ReportingEngine(default), "two": ReportingEngine(other)}).status()
        assert (status.ready, status.reason) == (False, reason)
        assert (status.active_requests, status.capacity) == (3, default.capacity)


def test_released_engines_are_forgotten() -> None:
    named = engines("kokoro")
    named.release()
    assert not len(named)
