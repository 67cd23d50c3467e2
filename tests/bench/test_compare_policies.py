"""The comparison runs end to end: servers of their own, the same trace, ratios, and the simulator beside."""

from pathlib import Path

import pytest

from bench import compare_policies, results


def test_a_short_comparison_prints_ratios_and_agreement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    arguments = ["--profile", "h200_stateful", "--rate", "4", "--duration", "3", "--drain", "8", "--warm-up", "0"]
    file = tmp_path / "runs.json"
    assert compare_policies.main([*arguments, "--report", str(page), "--json", str(file)]) == 0
    out = capsys.readouterr().out
    assert "policy_c, live 1" in out
    assert "deadline, simulated" in out
    assert "live 1: deadline / policy_c" in out
    assert "against the simulator: TTFP p95" in out
    assert "<svg" in page.read_text("utf-8")
    runs = results.loads_any(file.read_bytes())
    assert len(runs) == 4
    assert all(run.conditions["command"].startswith("python -m bench.compare_policies") for run in runs)


async def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(RuntimeError, match="no profile 'nope'"):
        async with compare_policies.server(["--model", "tone", "--set", "profile=nope"]):
            pass
