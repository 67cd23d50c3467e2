"""Stages: what a model must declare, and what an output may say."""

import dataclasses

import numpy as np
import pytest

from realtime_tts.engine.models import tone
from realtime_tts.engine.scheduling.load import StageLane
from realtime_tts.engine.stage import StageOutput, StageSpec, host_array, pack_codes, unpack_codes
from tests.fakes import with_stage


def test_a_model_whose_parts_do_not_fit_is_refused() -> None:
    model = tone.build(thinker=True)
    thinker, talker, code2wav = model.specs
    cases: dict[str, dict[str, object]] = {
        "needs a stage that makes frames": {"specs": (code2wav,)},
        "must differ": {"specs": (thinker, talker, talker)},
        "an object for each replica": {"stages": {}},
        "costs.upstream": {"costs": tone.build().costs},
        "same number of replicas": {
            "specs": (dataclasses.replace(thinker, lane="code2wav"), talker, dataclasses.replace(code2wav, replicas=2)),
            "stages": {**model.stages, "code2wav": 2 * model.stages["code2wav"]},
        },
    }
    for message, changes in cases.items():
        with pytest.raises(ValueError, match=message):
            dataclasses.replace(model, **changes)  # type: ignore[arg-type]


def test_a_stage_has_at_least_one_of_everything() -> None:
    for field in ("max_batch", "replicas", "slots"):
        with pytest.raises(ValueError, match=f"{field} of stage talker"):
            StageSpec("talker", "gpu", **{field: 0})  # type: ignore[arg-type]


def test_each_replica_has_a_lane_and_an_object() -> None:
    model = tone.build(replicas=2)
    assert model.lanes == ("talker-0", "talker-1", "code2wav-0", "code2wav-1")
    assert model.stage_lanes == (StageLane("talker", 2), StageLane("code2wav", 2))
    first, second = model.stages["talker"]
    assert model.stage("talker") is model.stage("talker", "talker-0") is first
    assert model.stage("talker", "talker-1") is second
    assert tone.build(shared_lane=True, replicas=2).lanes == ("talker-0", "talker-1")
    assert tone.build().lanes == ("talker", "code2wav")


def test_stages_can_be_replaced_one_by_one() -> None:
    model = tone.build()
    other = with_stage(model, "talker", model.stage("code2wav"))
    assert other.stage("talker") is model.stage("code2wav")


def test_only_a_finished_row_can_be_retried() -> None:
    with pytest.raises(ValueError, match="has finished"):
        StageOutput(np.empty((0, 16)), can_retry=True)


def test_reading_a_payload_requires_an_array_on_the_host() -> None:
    values = np.zeros(3)
    assert host_array(values) is values
    with pytest.raises(AssertionError, match="NoneType"):
        host_array(None)


def test_packed_codes_come_back_equal_and_those_of_another_model_are_refused() -> None:
    codes = np.arange(48, dtype=np.int64).reshape(3, 16) * 60
    assert len(pack_codes(codes)) == 2 * codes.size
    assert np.array_equal(unpack_codes(pack_codes(codes), 16), codes)
    assert len(unpack_codes(b"", 16)) == 0
    with pytest.raises(ValueError, match="reshape"):
        unpack_codes(pack_codes(codes), 7)
