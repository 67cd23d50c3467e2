"""Every bench can be called as it is called, one command runs them, and what fails is not passed over."""

import importlib
from pathlib import Path

import pytest

from bench import all as everything
from bench import compare_policies, kokoro_profile, results, server_overhead, simulate, stacked
from bench.peers import __main__ as peers
from bench.results import Run

BENCH = Path(everything.__file__).parent
OWN_ENVIRONMENT = {"qwen3_tts_codec_goldens", "qwen3_tts_goldens", "qwen3_tts_reference", "locustfile"}
"""They need what ours does without: other packages, of versions of their own."""


@pytest.mark.parametrize("name", sorted(path.stem for path in BENCH.glob("*.py") if path.stem not in OWN_ENVIRONMENT))
def test_every_module_can_be_imported(name: str) -> None:
    try:
        importlib.import_module(f"bench.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in ("torch", "safetensors"):
            pytest.skip(f"needs {error.name}")
        raise


PARSERS = {
    "simulate": simulate.parse,
    "compare_policies": compare_policies.parse,
    "server_overhead": server_overhead.parse,
    "stacked": stacked.parse,
    "kokoro_profile": kokoro_profile.parse,
    "peers": peers.parse,
}


@pytest.mark.parametrize("job", [job for job in everything.JOBS if job.name in PARSERS], ids=lambda job: job.name)
def test_its_settings_are_those_that_a_bench_takes(job: everything.Job) -> None:
    for options in (job.quick, job.smoke):
        assert PARSERS[job.name]([*options, "--json", "a.json"]).json == Path("a.json")


def test_one_command_makes_one_page_of_several_benches(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert everything.main(["--smoke", "--only", "simulate", "barge_in", "--output", str(tmp_path / "new" / "er")]) == 0
    out = capfd.readouterr().out
    assert "python -m bench.simulate" in out
    assert out.splitlines()[-2:] == [f"{'simulate':<18} ok", f"{'barge_in':<18} ok"]
    page = (tmp_path / "new" / "er" / "report.html").read_text("utf-8")
    assert "Did any listener run dry? (bench.simulate)" in page
    assert "Does a barge-in stop at once, and for good?" in page


@pytest.mark.parametrize(
    ("options", "limit_s", "trouble"),
    [(("--no-such-option",), 60.0, "wrote nothing (exit status 2)"), ((), 0.05, "not done within 0.05 s")],
)
def test_a_bench_that_fails_fails_the_whole_and_the_others_are_drawn(
    options: tuple[str, ...],
    limit_s: float,
    trouble: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "hot_path.json").write_bytes(results.dumps(Run("of yesterday", (), 1.0)))
    jobs = (
        everything.Job("hot_path", smoke=options, limit_s=limit_s),
        everything.Job("simulate", smoke=("-c", "2", "--duration", "1", "--warm-up", "0")),
    )
    monkeypatch.setattr(everything, "JOBS", jobs)
    assert everything.main(["--smoke", "--output", str(tmp_path)]) == 1
    assert f"hot_path           {trouble}" in capfd.readouterr().out
    assert not (tmp_path / "hot_path.json").exists()
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "of yesterday" not in page
    assert "closed c=2" in page


def test_an_exit_status_is_told_though_figures_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Done:
        returncode = 1

    def written(command: list[str], **_: object) -> Done:
        Path(command[-1]).write_bytes(results.dumps(Run("a", (), 1.0)))
        return Done()

    monkeypatch.setattr("subprocess.run", written)
    monkeypatch.setattr(everything, "JOBS", (everything.Job("simulate"),))
    assert everything.main(["--output", str(tmp_path)]) == 1
    assert (tmp_path / "report.html").exists()
