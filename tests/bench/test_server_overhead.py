"""The search ends between what is carried and what is not, and the whole comparison runs, for a moment."""

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


def tried(streams: int, *, carried: bool, kind: str = "ours", cpu: float = 0.5) -> Trial:
    return Trial(
        kind=kind,
        streams=streams,
        failed=0,
        ok_share=1.0 if carried else 0.5,
        underrun_p95_s=0.0 if carried else 1.0,
        messages_per_s=streams * 12.5,
        server_cpu=cpu,
        server_waited=0.0,
        client_cpu=0.1,
        lag_p50_s=0.001,
        lag_p99_s=0.002,
        rss_per_stream_bytes=1024.0,
    )


def core_that_carries(most: int, asked: list[int]) -> Callable[[int], Trial]:
    def measure(streams: int) -> Trial:
        asked.append(streams)
        return tried(streams, carried=streams <= most, cpu=min(1.0, streams / (most + 1)))

    return measure


@settings(deadline=None)
@given(most=st.integers(1, 5000), first=st.integers(1, 5000))
def test_the_search_ends_between_what_is_carried_and_what_is_not(most: int, first: int) -> None:
    asked: list[int] = []
    measure = core_that_carries(most, asked)
    found = search(measure, measure(first), most=10_000, budget=200)
    assert found.carried is not None
    assert found.above is not None
    assert found.carried.streams <= most < found.above.streams
    assert found.above.streams <= max(found.carried.streams * RESOLUTION, found.carried.streams + 1)
    assert [each.streams for each in found.trials] == asked
    assert found.at_least == ""


@settings(deadline=None)
@given(most=st.integers(1, 500), first=st.integers(1, 500), budget=st.integers(0, 6), limit=st.integers(1, 300))
def test_the_search_is_bounded(most: int, first: int, budget: int, limit: int) -> None:
    asked: list[int] = []
    measure = core_that_carries(most, asked)
    found = search(measure, measure(first), most=limit, budget=budget)
    assert len(asked) <= budget + 1
    assert all(streams <= max(limit, first) for streams in asked)
    if found.above is None:
        assert "ended before" in found.at_least


def test_what_may_not_be_the_server_s_limit_is_called_at_least() -> None:
    low, high = tried(10, carried=True), tried(20, carried=False)
    assert Round(low, low, high, (low, high)).at_least == ""
    assert "listeners" in Round(low, low, replace(high, client_cpu=0.95), ()).at_least
    assert "busy" in Round(low, low, replace(high, server_waited=0.2), ()).at_least
    assert server_overhead.streams_told([Round(low, low, None, (low,))]) == "at least 10"
    assert server_overhead.streams_told([Round(low, low, high, ())] * 2) == "10 (10 to 10)"
    assert server_overhead.streams_told([Round(high, None, high, ())]) == "0"


def test_what_fails_once_is_tried_again_and_what_fails_twice_has_failed() -> None:
    outcomes = iter((False, True, False, False, True))
    measure = server_overhead.patiently(lambda streams: tried(streams, carried=next(outcomes)))
    assert measure(5).carried
    assert not measure(5).carried
    assert measure(5).carried


def test_ratios_are_those_of_the_same_round() -> None:
    def round_of(cpu: float, streams: int, kind: str) -> Round:
        base = tried(10, carried=True, kind=kind, cpu=cpu)
        return Round(base, tried(streams, carried=True, kind=kind), tried(streams + 1, carried=False), (base,))

    rounds = {
        "ours": [round_of(0.2, 50, "ours"), round_of(0.6, 60, "ours")],
        "raw": [round_of(0.1, 100, "raw"), round_of(0.2, 60, "raw")],
    }
    table = server_overhead.ratios_of("pcm", rounds)
    assert table is not None
    assert table.rows == (("ours / by hand", "2.50 (2.00 to 3.00)", "0.75 (0.50 to 1.00)"),)
    assert server_overhead.ratios_of("pcm", {"raw": rounds["raw"]}) is None
    rounds["raw"] = [replace(one, above=None) for one in rounds["raw"]]
    unsure = server_overhead.ratios_of("pcm", rounds)
    assert unsure is not None
    assert unsure.rows == (("ours / by hand", "2.50 (2.00 to 3.00)", None),)


def test_a_short_comparison_is_told_written_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    arguments = ["--smoke", "--json", str(tmp_path / "a.json"), "--report", str(tmp_path / "a.html")]
    assert server_overhead.main(arguments) == 0
    out = capsys.readouterr().out
    (result,) = results.loads_any((tmp_path / "a.json").read_bytes())
    assert isinstance(result, Result)
    assert result.conditions["command"].startswith("python -m bench.server_overhead --smoke")
    assert [row[0] for row in result.tables[0].rows] == ["ours", "bare aiohttp", "by hand"]
    assert [row[0] for row in result.tables[1].rows] == ["ours / bare aiohttp", "ours / by hand"]
    assert "encoding alone" in out
    assert "by hand" in (tmp_path / "a.html").read_text("utf-8")
    assert before is None or os.sched_getaffinity(0) == before


def test_nothing_heard_is_a_failure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def silent(kind: str, _encoding: str, streams: int, _window_s: float, _core: int | None) -> Trial:
        return replace(tried(streams, carried=False, kind=kind), messages_per_s=0.0)

    monkeypatch.setattr(server_overhead, "trial", silent)
    assert server_overhead.main(["--smoke", "--kinds", "ours"]) == 1
    assert "ours at least 0" not in capsys.readouterr().out


def test_it_wants_numbers_that_make_sense() -> None:
    for arguments in (["--rounds", "0"], ["--window", "0"], ["--streams", "0"], ["--trials", "-1"]):
        with pytest.raises(SystemExit):
            server_overhead.parse(arguments)
