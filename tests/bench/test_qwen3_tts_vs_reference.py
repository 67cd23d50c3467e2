"""Our side of the comparison, its targets, and the protocol of the reference's process."""

import io
import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from bench import qwen3_tts_vs_reference as bench  # noqa: E402
from bench import results  # noqa: E402
from bench.qwen3_tts_ours import Ours  # noqa: E402
from bench.qwen3_tts_reference import Worker, serve  # noqa: E402
from bench.qwen3_tts_weights import SIZES, write_model  # noqa: E402
from bench.results import Result  # noqa: E402

FRAME = 1920


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    made = tmp_path_factory.mktemp("vs") / "model"
    write_model(made, SIZES["tiny"])
    return made


def ours(directory: Path, *, slots: int = 2, first: int = 2, chunk: int = 3) -> Ours:
    return Ours(directory, slots, torch.device("cpu"), torch.float32, first, chunk)


def test_every_request_has_its_frames_with_fewer_slots(directory: Path) -> None:
    times, waves = ours(directory).speak(["hello"] * 5, 6, 0)
    assert [len(wave) for wave in waves] == [6 * FRAME] * 5
    assert times.audio_s == pytest.approx(5 * 6 * 0.08)
    assert 0 < times.first_s <= times.wall_s


def test_audio_does_not_depend_on_chunks_or_other_requests(directory: Path) -> None:
    _, (alone,) = ours(directory, first=7, chunk=7).speak(["hello"], 7, 3)
    _, waves = ours(directory, slots=4, first=1, chunk=2).speak(["hello", "the world", "hello the"], 7, 3)
    assert np.abs(alone - waves[0]).max() < 1e-5
    assert np.abs(alone - waves[1]).max() > 1e-2


def test_targets_distinguish_better_from_worse(directory: Path) -> None:
    decoder = ours(directory).decoder_config
    slow = bench.Side(ttfp_s=2.0, rtf=1.0, cpu_rtf=1.0, batch_throughput=1.0, batch_ttfp_s=2.0)
    quick = bench.Side(ttfp_s=0.1, rtf=0.5, cpu_rtf=0.5, batch_throughput=3.0, batch_ttfp_s=0.2)
    assert all(target.met for target in bench.targets(quick, slow, decoder))
    assert [target.met for target in bench.targets(slow, quick, decoder)] == [False, False, False, True]


def test_the_worker_answers_each_request_line() -> None:
    calls: list[tuple[list[str], int]] = []
    seeds: list[int] = []

    class Fake:
        def generate_custom_voice(
            self, text: list[str], speaker: str, language: str, *, max_new_tokens: int
        ) -> "tuple[list[np.ndarray], int]":
            calls.append((text, max_new_tokens))
            return [np.zeros(FRAME, np.float32) for _ in text], 24_000

    request = {"texts": ["a", "b"], "speaker": "x", "language": "y", "frames": 1, "seed": 7, "wave": ""}
    answers = io.StringIO()
    serve(Worker(Fake(), seeds.append, lambda path, wave: None), io.StringIO(json.dumps(request) + "\n"), answers)
    (answer,) = map(json.loads, answers.getvalue().splitlines())
    assert answer["samples"] == [FRAME, FRAME]
    assert calls == [(["a", "b"], 2)]
    assert seeds == [7]


def test_the_end_of_the_worker_ends_the_run(tmp_path: Path) -> None:
    false = next(path for path in (Path("/bin/false"), Path("/usr/bin/false")) if path.exists())
    with pytest.raises(SystemExit, match="ended"), bench.reference(false, tmp_path, 1, "cpu", "float32"):
        pass


def test_without_a_reference_only_ours_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "figures.json"
    options = ["--size", "tiny", "--frames", "3", "--rounds", "1", "--threads", "1", "--copy-megabytes", "1"]
    assert bench.main([*options, "--json", str(path)]) == 0
    out = capsys.readouterr().out
    assert "not measured" in out
    assert "commit" in out
    (result,) = results.loads(path.read_bytes())
    assert isinstance(result, Result)
    medians, decoding = result.tables
    assert [row[0] for row in medians.rows] == ["ours"]
    assert [row[0] for row in decoding.rows] == list(bench.WINDOWED_CHUNKS)


def test_the_result_has_both_sides_the_targets_and_the_parity(directory: Path) -> None:
    decoder = ours(directory).decoder_config
    slow = bench.Side(ttfp_s=2.0, rtf=1.0, cpu_rtf=1.0, batch_throughput=1.0, batch_ttfp_s=2.0)
    quick = bench.Side(ttfp_s=0.1, rtf=0.5, cpu_rtf=0.5, batch_throughput=3.0, batch_ttfp_s=0.2)
    met = bench.targets(quick, slow, decoder)
    step, parity = bench.Step(1_000_000, 0.001, 2e9), bench.Parity(1e-6, 0.5)
    result = bench.result_of({}, {"ours": quick, "reference": slow}, step, decoder, parity, met)
    assert result.headline == "4 of 4 targets met"
    assert [row[0] for row in result.tables[0].rows] == ["ours", "reference"]
    assert "50% of the 2.0 GB/s" in result.notes[0]
    assert "1.0e-06" in result.notes[1]
