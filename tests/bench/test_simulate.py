"""Simulated loads: the reference figures, every mode, traces, and fitted costs."""

import json
from pathlib import Path
from random import Random

import pytest

from bench import simulate, trace
from bench.texts import pick_text
from realtime_tts.engine.config import EngineConfig

H200 = simulate.device_of("h200", shared_lane=False)


def test_devices_have_the_measured_capacity() -> None:
    for profile, capacity in (("h20", 25), ("h200", 68), ("graph", 288)):
        device = simulate.device_of(profile, shared_lane=False)
        assert device.capacity() == pytest.approx(capacity, abs=1), profile


def test_lanes_of_the_slower_stage_raise_the_capacity_until_the_other_one_is_full() -> None:
    capacities = [
        simulate.device_of("custom_voice", shared_lane=False, replicas={"code2wav": lanes}).capacity()
        for lanes in (1, 2, 4)
    ]
    assert capacities == [97, 195, 287]


def check_closed_load(concurrency: int, *, duration_s: float, warm_up_s: float, seeds: tuple[int, ...] = (0,)) -> None:
    """The shares in time are a mean of the seeds: by chance three of 275 requests of one may be late."""
    ok_shares = []
    for seed in seeds:
        plan = simulate.SimulationPlan(mode="closed", duration_s=duration_s, concurrency=concurrency, seed=seed)
        ours = simulate.simulate(H200, plan, EngineConfig(), warm_up_s=warm_up_s).summary()
        assert ours.underrun_s.p95 is not None
        assert ours.underrun_s.p95 <= 0.02, seed
        ok_shares.append(ours.ok_share or 0.0)
    assert sum(ok_shares) / len(seeds) >= 0.99
    theirs = simulate.simulate(H200, plan, EngineConfig(scheduler="policy_c"), warm_up_s=warm_up_s).summary()
    assert theirs.underrun_s.p95 is not None
    assert theirs.underrun_s.p95 >= 1.0


def test_ours_has_no_underruns_at_64_users_where_policy_c_has() -> None:
    check_closed_load(64, duration_s=20.0, warm_up_s=5.0)


@pytest.mark.slow
def test_ours_has_no_underruns_at_256_users_where_policy_c_has() -> None:
    check_closed_load(256, duration_s=40.0, warm_up_s=15.0, seeds=(0, 1, 2))


@pytest.mark.slow
def test_in_overload_ours_refuses_only_as_many_as_necessary() -> None:
    plan = simulate.open_plan(H200, rate_hz=None, load=1.2, duration_s=60.0, seed=0)
    summary = simulate.simulate(H200, plan, EngineConfig(max_requests=100_000)).summary()
    assert (summary.ok_share or 0) >= 0.99
    assert 1 - 1 / 1.2 <= summary.refused_share <= 0.30


def test_every_mode_prints_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["--mode", "listeners", "-c", "20"],
        ["--mode", "open", "--rate", "5", "--burst-size", "10", "--burst-every", "5"],
        ["--mode", "closed", "-c", "8", "--shared", "--profile", "graph"],
        ["--mode", "closed", "-c", "8", "--replicas", "talker=2,code2wav=2"],
    ):
        assert simulate.main([*arguments, "--duration", "6", "--warm-up", "1"]) == 0
        out = capsys.readouterr().out
        assert all(word in out for word in ("policy_c", "deadline", "TTFP")), arguments


def test_a_trace_is_replayed_and_results_and_report_are_written(tmp_path: Path) -> None:
    arrivals = trace.poisson(4.0, 8.0, Random(0), pick_text)
    file = tmp_path / "trace.json"
    file.write_text(trace.dumps(arrivals), "utf-8")
    figures, html = tmp_path / "figures.json", tmp_path / "report.html"
    arguments = ["--trace-in", str(file), "--json", str(figures), "--report", str(html), "--scheduler", "deadline"]
    assert simulate.main(arguments) == 0
    (run,) = json.loads(figures.read_text("utf-8"))
    assert len(run["run"]["outcomes"]) == len(arrivals)
    assert "<svg" in html.read_text("utf-8")


def test_the_fitted_costs_of_a_live_server_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
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
