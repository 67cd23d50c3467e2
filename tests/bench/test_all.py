"""All benchmarks in one command: valid settings, one report, and failures that do not stop the others."""

import importlib.util
import subprocess
from pathlib import Path

import pytest

from bench import ablation, compare_policies, kokoro_profile, results, server_overhead, simulate
from bench import all as all_benchmarks
from bench.peers import __main__ as peers
from bench.results import Run

BENCH = Path(all_benchmarks.__file__).parent
OWN_ENVIRONMENT = {"qwen3_tts_codec_goldens", "qwen3_tts_goldens", "qwen3_tts_reference", "locustfile"}
"""They need packages that the project does not depend on."""


def test_every_module_can_be_imported() -> None:
    needs_torch = {f"qwen3_tts_{part}" for part in ("flops", "ours", "vs_reference", "weights")}
    for name in sorted(path.stem for path in BENCH.glob("*.py") if path.stem not in OWN_ENVIRONMENT):
        if name not in needs_torch or importlib.util.find_spec("torch"):
            importlib.import_module(f"bench.{name}")


def test_every_benchmark_accepts_its_settings() -> None:
    parsers = {
        "simulate": simulate.parse,
        "compare_policies": compare_policies.parse,
        "server_overhead": server_overhead.parse,
        "ablation": ablation.parse,
        "kokoro_profile": kokoro_profile.parse,
        "peers": peers.parse,
    }
    for benchmark in all_benchmarks.BENCHMARKS:
        if benchmark.name in parsers:
            for options in (benchmark.quick, benchmark.smoke):
                arguments = [*options, "--json", "a.json"]
                assert parsers[benchmark.name](arguments).json == Path("a.json"), benchmark.name


@pytest.mark.slow
def test_several_benchmarks_share_one_report(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "folder"
    assert all_benchmarks.main(["--smoke", "--only", "simulate", "barge_in", "--output", str(folder)]) == 0
    out = capfd.readouterr().out
    assert "python -m bench.simulate" in out
    assert out.splitlines()[-2:] == [f"{'simulate':<18} ok", f"{'barge_in':<18} ok"]
    html = (folder / "report.html").read_text("utf-8")
    assert "Playback continuity under load (bench.simulate)" in html
    assert "30 barge-ins" not in html
    assert "20 barge-ins" in html


@pytest.mark.usefixtures("empty_charts")
def test_a_failed_benchmark_fails_the_command_and_the_others_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def run(command: list[str], *, timeout: float, check: bool) -> subprocess.CompletedProcess[str]:
        assert not check
        name, file = command[2], Path(command[-1])
        if name == "bench.barge_in":
            raise subprocess.TimeoutExpired(command, timeout)
        if name != "bench.hot_path":
            file.write_bytes(results.dumps([Run(f"run of {name}", (), 1.0)]))
        return subprocess.CompletedProcess(command, 0 if name == "bench.simulate" else 2)

    (tmp_path / "hot_path.json").write_bytes(results.dumps([Run("of yesterday", (), 1.0)]))
    monkeypatch.setattr("subprocess.run", run)
    names = ["hot_path", "barge_in", "simulate", "peers"]
    assert all_benchmarks.main(["--smoke", "--output", str(tmp_path), "--only", *names]) == 1
    assert capfd.readouterr().out.splitlines()[-4:] == [
        "hot_path           no results (exit status 2)",
        "simulate           ok",
        "barge_in           stopped after 300 s",
        "peers              exit status 2",
    ]
    assert not (tmp_path / "hot_path.json").exists()
    html = (tmp_path / "report.html").read_text("utf-8")
    assert "run of bench.simulate" in html
    assert "run of bench.peers" in html


def test_without_the_packages_of_the_report_there_is_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "simulate.json").write_bytes(results.dumps([Run("a", (), 1.0)]))
    monkeypatch.setattr(all_benchmarks, "report_is_possible", lambda: False)
    assert "pip install" in all_benchmarks.write_report(tmp_path, ["simulate"])
    assert "no results" in all_benchmarks.write_report(tmp_path, ["hot_path"])
