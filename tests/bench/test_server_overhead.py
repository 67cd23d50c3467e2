"""The search finds the limit of a server, and a short comparison runs completely."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import results, server_overhead
from bench.results import Result
from bench.server_overhead import RESOLUTION, Round, search
from bench.server_overhead_listeners import Trial


def trial_of(streams: int, *, sustained: bool, kind: str = "ours", cpu: float = 0.5) -> Trial:
    return Trial(
        kind=kind,
        streams=streams,
        failed=0,
        ok_share=1.0 if sustained else 0.5,
        underrun_p95_s=0.0 if sustained else 1.0,
        messages_per_s=streams * 12.5,
        server_cpu=cpu,
        server_waited=0.0,
        client_cpu=0.1,
        lag_p50_s=0.001,
        lag_p99_s=0.002,
        rss_per_stream_bytes=1024.0,
    )


def server_with_limit(most: int, measured: list[int]) -> Callable[[int], Trial]:
    def measure(streams: int) -> Trial:
        measured.append(streams)
        return trial_of(streams, sustained=streams <= most, cpu=min(1.0, streams / (most + 1)))

    return measure


@settings(deadline=None, max_examples=50)
@given(most=st.integers(1, 5000), first=st.integers(1, 5000))
def test_the_search_ends_between_sustained_and_overloaded(most: int, first: int) -> None:
    measured: list[int] = []
    measure = server_with_limit(most, measured)
    found = search(measure, measure(first), max_streams=10_000, max_trials=200)
    assert found.sustained is not None
    assert found.overloaded is not None
    assert found.sustained.streams <= most < found.overloaded.streams
    assert found.overloaded.streams <= max(found.sustained.streams * RESOLUTION, found.sustained.streams + 1)
    assert [each.streams for each in found.trials] == measured
    assert found.at_least == ""


@settings(deadline=None, max_examples=50)
@given(most=st.integers(1, 500), first=st.integers(1, 500), max_trials=st.integers(0, 6), limit=st.integers(1, 300))
def test_the_search_is_bounded(most: int, first: int, max_trials: int, limit: int) -> None:
    measured: list[int] = []
    measure = server_with_limit(most, measured)
    found = search(measure, measure(first), max_streams=limit, max_trials=max_trials)
    assert len(measured) <= max_trials + 1
    assert all(streams <= max(limit, first) for streams in measured)
    if found.overloaded is None:
        assert "ended before" in found.at_least


def test_an_uncertain_limit_is_called_at_least() -> None:
    low, high = trial_of(10, sustained=True), trial_of(20, sustained=False)
    assert Round(low, low, high, (low, high)).at_least == ""
    assert "listeners" in Round(low, low, replace(high, client_cpu=0.95), ()).at_least
    assert "busy" in Round(low, low, replace(high, server_waited=0.2), ()).at_least
    assert server_overhead.streams_text([Round(low, low, None, (low,))]) == "at least 10"
    assert server_overhead.streams_text([Round(low, low, high, ())] * 2) == "10 (10 to 10)"
    assert server_overhead.streams_text([Round(high, None, high, ())]) == "0"


def test_a_failed_trial_is_repeated_once() -> None:
    outcomes = iter((False, True, False, False, True))
    measure = server_overhead.with_retry(lambda streams: trial_of(streams, sustained=next(outcomes)))
    assert measure(5).sustained
    assert not measure(5).sustained
    assert measure(5).sustained


def test_ratios_are_taken_within_a_round() -> None:
    def round_of(cpu: float, streams: int, kind: str) -> Round:
        base = trial_of(10, sustained=True, kind=kind, cpu=cpu)
        return Round(
            base, trial_of(streams, sustained=True, kind=kind), trial_of(streams + 1, sustained=False), (base,)
        )

    rounds = {
        "ours": [round_of(0.2, 50, "ours"), round_of(0.6, 60, "ours")],
        "raw": [round_of(0.1, 100, "raw"), round_of(0.2, 60, "raw")],
    }
    table = server_overhead.ratios_of("pcm", rounds)
    assert table is not None
    assert table.rows == (("ours / hand-written frames", "2.50 (2.00 to 3.00)", "0.75 (0.50 to 1.00)"),)
    assert server_overhead.ratios_of("pcm", {"raw": rounds["raw"]}) is None
    rounds["raw"] = [replace(one, overloaded=None) for one in rounds["raw"]]
    unsure = server_overhead.ratios_of("pcm", rounds)
    assert unsure is not None
    assert unsure.rows == (("ours / hand-written frames", "2.50 (2.00 to 3.00)", None),)


@pytest.mark.slow
def test_a_short_comparison_is_printed_written_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    arguments = ["--smoke", "--json", str(tmp_path / "a.json"), "--report", str(tmp_path / "a.html")]
    assert server_overhead.main(arguments) == 0
    out = capsys.readouterr().out
    (result,) = results.loads((tmp_path / "a.json").read_bytes())
    assert isinstance(result, Result)
    assert result.conditions["command"].startswith("python -m bench.server_overhead --smoke")
    assert [row[0] for row in result.tables[0].rows] == ["ours", "bare aiohttp", "hand-written frames"]
    assert [row[0] for row in result.tables[1].rows] == ["ours / bare aiohttp", "ours / hand-written frames"]
    assert "encoding alone" in out
    assert "hand-written frames" in (tmp_path / "a.html").read_text("utf-8")
    assert before is None or os.sched_getaffinity(0) == before


def test_a_server_without_audio_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def silent(kind: str, _encoding: str, streams: int, _window_s: float, _core: int | None) -> Trial:
        return replace(trial_of(streams, sustained=False, kind=kind), messages_per_s=0.0)

    monkeypatch.setattr(server_overhead, "trial", silent)
    assert server_overhead.main(["--smoke", "--kinds", "ours"]) == 1
    assert "ours at least 0" not in capsys.readouterr().out


def test_invalid_numbers_are_refused() -> None:
    for arguments in (["--rounds", "0"], ["--window", "0"], ["--streams", "0"], ["--trials", "-1"]):
        with pytest.raises(SystemExit):
            server_overhead.parse(arguments)
