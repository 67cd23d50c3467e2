"""The simulator's loads: the figures of the design hold, and every kind of load runs to its end."""

import json
from pathlib import Path
from random import Random

import pytest

from bench import simulate, trace
from bench.texts import pick_text
from realtime_tts.engine.config import EngineConfig

H200 = simulate.device_of("h200", shared_lane=False)


@pytest.mark.parametrize(("profile", "carries"), [("h20", 25), ("h200", 68), ("graph", 288)])
def test_devices_carry_what_was_measured_of_them(profile: str, carries: int) -> None:
    assert simulate.device_of(profile, shared_lane=False).carries() == pytest.approx(carries, abs=1)


@pytest.mark.parametrize("concurrency", [64, 256])
def test_at_any_concurrency_ours_never_runs_dry_where_the_field_s_does(concurrency: int) -> None:
    plan = simulate.Plan(mode="closed", duration_s=40.0, concurrency=concurrency)
    ours = simulate.simulate(H200, plan, EngineConfig()).summary()
    theirs = simulate.simulate(H200, plan, EngineConfig(scheduler="policy_c")).summary()
    assert ours.underrun_s.p95 is not None
    assert theirs.underrun_s.p95 is not None
    assert ours.underrun_s.p95 <= 0.02
    assert theirs.underrun_s.p95 >= 1.0
    assert (ours.ok_share or 0) >= 0.99


def test_in_overload_ours_refuses_no_more_than_it_must_and_keeps_the_rest_in_sound() -> None:
    plan = simulate.open_plan(H200, rate_hz=None, load=1.2, duration_s=60.0, seed=0)
    summary = simulate.simulate(H200, plan, EngineConfig(max_requests=100_000)).summary()
    assert (summary.ok_share or 0) >= 0.99
    assert 1 - 1 / 1.2 <= summary.refused_share <= 0.30


@pytest.mark.parametrize(
    "arguments",
    [
        ["--mode", "listeners", "-c", "20"],
        ["--mode", "open", "--rate", "5", "--burst-size", "10", "--burst-every", "5"],
        ["--mode", "closed", "-c", "8", "--shared", "--profile", "graph"],
    ],
    ids=lambda arguments: arguments[1],
)
def test_every_kind_of_load_prints_its_table(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate.main([*arguments, "--duration", "15", "--warm-up", "2"]) == 0
    out = capsys.readouterr().out
    assert "policy_c" in out
    assert "deadline" in out
    assert "TTFP" in out


def test_a_trace_is_replayed_and_figures_and_page_are_written(tmp_path: Path) -> None:
    arrivals = trace.poisson(4.0, 8.0, Random(0), pick_text)
    asked = tmp_path / "trace.json"
    asked.write_text(trace.dumps(arrivals), "utf-8")
    figures, page = tmp_path / "figures.json", tmp_path / "page.html"
    arguments = ["--trace-in", str(asked), "--json", str(figures), "--report", str(page), "--scheduler", "deadline"]
    assert simulate.main(arguments) == 0
    (run,) = json.loads(figures.read_text("utf-8"))
    assert len(run["run"]["outcomes"]) == len(arrivals)
    assert "<svg" in page.read_text("utf-8")


def test_the_costs_that_a_live_server_has_fitted_can_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = {
        "frame": {"base_s": 0.01, "per_unit_s": 0.001},
        "decode": {"base_s": 0.02, "per_unit_s": 0.002},
        "prefill_s": 0.03,
        "frames_per_row": 1.0,
        "scatter_s": 0.0,
    }
    monkeypatch.setattr(simulate, "fitted_costs", lambda url: costs)
    device = simulate.fitted_device("http://127.0.0.1:1", H200)
    assert (device.costs.a0_s, device.costs.b1_s, device.costs.prefill_s) == (0.01, 0.002, 0.03)
    assert device.decode_batch == H200.decode_batch
