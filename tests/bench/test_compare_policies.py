"""Comparison of policies: live servers, the same trace, ratios, and the agreement with the simulator."""

from pathlib import Path

import pytest

from bench import compare_policies, results
from bench.results import Run
from bench.summary import Packet, Status, judge


def run(label: str, first_s: float) -> Run:
    packets = [Packet(first_s, 1.0), Packet(first_s + 0.5, 1.0)]
    return Run(label, (judge(intended_s=0.0, ended_s=2.0, status=Status.OK, timeline=packets),), duration_s=2.0)


@pytest.mark.slow
def test_a_short_comparison_prints_ratios_and_agreement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, file = tmp_path / "report.html", tmp_path / "runs.json"
    arguments = ["--profile", "h200_stateful", "--rate", "4", "--duration", "3", "--drain", "8", "--warm-up", "0"]
    assert compare_policies.main([*arguments, "--report", str(report), "--json", str(file)]) == 0
    out = capsys.readouterr().out
    assert "policy_c, live 1" in out
    assert "deadline, simulated" in out
    assert "live 1: deadline / policy_c" in out
    assert "compared with the simulator: TTFP p95" in out
    assert "<svg" in report.read_text("utf-8")
    runs = results.loads(file.read_bytes())
    assert len(runs) == 4
    assert all(run.conditions["command"].startswith("python -m bench.compare_policies") for run in runs)


def test_a_server_that_cannot_start_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare_policies.main(["--model", "no_such_model", "--duration", "0.1"]) == 2
    assert "no_such_model" in capsys.readouterr().err


def test_ratios_are_taken_within_a_round() -> None:
    runs = [run("policy_c, live 1", 0.4), run("deadline, live 1", 0.1), run("deadline, live 2", 0.2)]
    assert compare_policies.ratios(runs) == [
        "live 1: deadline / policy_c:  underrun p95 0 / 0 ms  TTFP p95 0.25x (100 / 400 ms)"
    ]


def test_agreement_compares_live_runs_with_the_simulation_of_the_same_policy() -> None:
    runs = [run("deadline, live 1", 0.3), run("deadline, simulated", 0.2), run("policy_c, live 1", 0.1)]
    (line,) = compare_policies.agreement(runs)
    assert line.endswith("TTFP p95 +50.0% (beyond 15%), the same underrun verdict")
