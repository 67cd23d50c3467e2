"""The comparison measures real answers, and its targets distinguish better from worse."""

import pytest

pytest.importorskip("torch")

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from bench import qwen3_omni_reference as worker
from bench import qwen3_omni_vs_reference as bench
from realtime_tts.engine.models.qwen3_omni.code2wav import START_SILENCE_SAMPLES
from tests.engine.models.qwen3_omni.make_checkpoint import make_checkpoint

SLOW = bench.Side(
    first_s=2.0, short_first_s=1.0, wall_s=2.0, batch_first_s=4.0, batch_throughput=1.0, batch_cpu_rtf=1.0
)
QUICK = bench.Side(
    first_s=0.1, short_first_s=0.1, wall_s=1.0, batch_first_s=0.2, batch_throughput=3.0, batch_cpu_rtf=0.2
)


def test_targets_distinguish_better_from_worse() -> None:
    assert all(target.met for target in bench.targets(QUICK, SLOW))
    assert not any(target.met for target in bench.targets(SLOW, QUICK))
    assert len(bench.targets(QUICK, None)) == 1


def test_the_result_has_both_sides_the_targets_and_the_parity() -> None:
    met = bench.targets(QUICK, SLOW)
    result = bench.result_of({}, {"ours": QUICK, "reference": SLOW}, 1e-7, met)
    assert result.headline == "3 of 3 targets met"
    assert [row[0] for row in result.tables[0].rows] == ["ours", "reference"]
    assert "1.0e-07" in result.notes[0]


def test_ours_is_measured_without_a_reference(tmp_path: Path) -> None:
    make_checkpoint(tmp_path)
    args = bench.parse(["--tokens", "4", "--frames", "6", "--rounds", "1"])
    result, met = asyncio.run(bench.measure(args, tmp_path))
    (row,) = result.tables[0].rows
    assert row[0] == "ours"
    assert all(isinstance(value, float) and value > 0 for value in row[1:])
    assert len(met) == 1


class Silent:
    """A model whose answers have the length that is asked for."""

    def generate(self, **options: Any) -> Any:
        samples = (options["talker_max_new_tokens"] - 1) * bench.SAMPLES_PER_FRAME - START_SILENCE_SAMPLES
        return [np.zeros(samples, np.float32) for _ in options["input_ids"]]


def test_the_worker_answers_a_line_with_a_line(tmp_path: Path) -> None:
    request = {"prompts": [[1, 2], [3, 4]], "tokens": 3, "frames": 5, "wave": str(tmp_path / "wave.npy")}
    answers = io.StringIO()
    reference = worker.Worker(Silent(), np.array, lambda result: list(result), np.save)
    worker.serve(reference, io.StringIO(json.dumps(request) + "\n"), answers)
    answer = json.loads(answers.getvalue())
    assert answer["samples"] == [5 * 1920 - 555] * 2
    assert answer["wall_s"] >= 0
    assert len(np.load(tmp_path / "wave.npy")) == 5 * 1920 - 555
