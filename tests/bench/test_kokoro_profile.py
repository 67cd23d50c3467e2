"""The profile of the embedded voice: parts of the graph, fair comparisons, and a complete run."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bench import kokoro_profile, results
from bench.kokoro_profile import Settings, Streams
from realtime_tts.clock import VirtualClock


def test_every_node_belongs_to_a_part() -> None:
    for node, part in (
        ("/encoder/bert/MatMul_kernel_time", "acoustic"),
        ("/decoder/decoder/generator/noise_res.1/convs1.1/Conv_quant_kernel_time", "blocks of the harmonics"),
        ("rewritten/resblocks.4/981/662_kernel_time", "blocks of the sound"),
        ("/decoder/decoder/generator/m_source/l_sin_gen/Sin_kernel_time", "source"),
        ("rewritten/upsampling/778/527_kernel_time", "upsampling"),
        ("/decoder/decoder/decode.3/conv1/Conv_quant_kernel_time", "decoder"),
        ("rewritten/conv_to_matmul/9/4_kernel_time", "decoder"),
        ("something else", "rest"),
    ):
        assert kokoro_profile.part_of(node) == part, node


def test_ways_alternate_after_a_warm_up_round() -> None:
    clock = VirtualClock()
    calls: list[str] = []

    def way(name: str, seconds: float) -> Callable[[], None]:
        def run() -> None:
            calls.append(name)
            clock.advance(seconds * (1 if len(calls) > 2 else 10))

        return run

    durations_s = kokoro_profile.alternate({"slow": way("slow", 2.0), "quick": way("quick", 1.0)}, 2, clock)
    assert calls == ["slow", "quick"] * 3
    assert durations_s == {"slow": [2.0, 2.0], "quick": [1.0, 1.0]}


def test_a_comparison_is_per_frame_and_relative_to_the_first() -> None:
    table = kokoro_profile.comparison("t", {"one": [1.0, 2.0, 9.0], "other": [3.0, 2.0, 1.0]}, {"one": 10, "other": 40})
    assert table.rows == (("one", 200.0, 100.0, 1.0), ("other", 50.0, 25.0, 4.0))


def test_the_last_table_gives_the_headline() -> None:
    tables = [kokoro_profile.streams_table(Streams(whole=2.0, streamed=3.5, ratio=1.75, first_audio_ms=120.4))]
    result = kokoro_profile.result_of(tables, kokoro_profile.parse(["--threads", "2"]), ["--threads", "2"])
    assert result.headline == "3.5 streams, 1.75 times those of whole sentences; first audio 120 ms"
    assert result.conditions["command"].endswith("bench.kokoro_profile --threads 2")


def test_an_invalid_model_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.onnx").write_bytes(b"no model")
    with pytest.raises(Exception, match=r"x\.onnx"):
        Settings(spinning=True, parallel_branches=True).load(tmp_path / "x.onnx")


@pytest.mark.slow
@pytest.mark.model
def test_a_complete_run_writes_its_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert kokoro_profile.main(["--smoke", "--json", str(tmp_path / "profile.json")]) == 0
    (result,) = results.loads((tmp_path / "profile.json").read_bytes())
    assert isinstance(result, results.Result)
    titles = [table.title for table in result.tables]
    assert {"acoustic: parts", "streaming_inputs: operators", "rewritten: parts"} <= set(titles)
    assert titles[-1] == "Streams at saturation"
    assert "realtime streams" in capsys.readouterr().out
