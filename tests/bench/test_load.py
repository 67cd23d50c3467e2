"""The load test command: a real server, the table, the files and the exit status."""

import asyncio
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import load, results, trace
from bench.listeners import LoadPlan
from bench.results import Run
from bench.summary import Outcome, Packet, Status, judge, summarise
from bench.trace import Arrival
from tests.serving import tone_server

ROOT = Path(__file__).parents[2]


async def started(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.load", *arguments),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def ended(process: asyncio.subprocess.Process) -> tuple[int | None, str, str]:
    out, err = await asyncio.wait_for(process.communicate(), 30)
    return process.returncode, out.decode(), err.decode()


def files(folder: Path) -> list[str]:
    return [f"--{name}={folder / name}" for name in ("json", "report", "trace")]


@pytest.mark.slow
async def test_a_load_prints_its_table_and_writes_its_files(tmp_path: Path) -> None:
    async with tone_server() as (url, _):
        options = ["--url", url, "--mode", "closed", "-c", "4", "--duration", "1.2", "--sentences", "2"]
        status, out, err = await ended(await started(*options, *files(tmp_path)))
    assert status == 0, err
    heading, row, *notes = out.splitlines()
    assert "underrun p50/p95/p99 ms | TTFP p50/p95/p99 ms" in heading
    assert row.startswith("closed, c=4")
    assert re.search(r"\| +\d+(\.\d)?% \|", row), "the share in time depends on this machine"
    assert re.search(r"\|client - server\| p50/p99: TTFP [\d.]+/[\d.]+ ms, underrun [\d.]+/[\d.]+ ms", "\n".join(notes))
    assert re.search(r"1 s  playing +\d+  ok +\d+", err)
    (run,) = results.loads((tmp_path / "json").read_bytes())
    assert isinstance(run, Run)
    assert run.conditions["model"] == "tone"
    assert run.conditions["command"].startswith("python -m bench.load --url")
    assert run.conditions["ended"] == "as planned"
    arrivals = trace.loads((tmp_path / "trace").read_text("utf-8"))
    assert len(arrivals) == len(run.outcomes) > 4
    assert "<svg" in (tmp_path / "report").read_text("utf-8")


async def test_a_trace_is_replayed(tmp_path: Path) -> None:
    arrivals = [Arrival(0.1, "The first."), Arrival(0.2, "The second.", "u1"), Arrival(0.3, "The third.", "u1")]
    (tmp_path / "in").write_text(trace.dumps(arrivals), "utf-8")
    async with tone_server() as (url, _):
        options = ["--url", url, "--trace-in", str(tmp_path / "in"), "--label", "again"]
        status, out, err = await ended(await started(*options, *files(tmp_path)))
    assert status == 0, err
    assert "again" in out
    assert trace.loads((tmp_path / "trace").read_text("utf-8")) == arrivals


@pytest.mark.slow
async def test_ctrl_c_ends_the_load_and_prints_the_results(tmp_path: Path) -> None:
    async with tone_server() as (url, _):
        options = ["--url", url, "--mode", "listeners", "-c", "8", "--think", "0.2", "--duration", "600"]
        process = await started(*options, *files(tmp_path))
        assert process.stderr is not None
        await asyncio.wait_for(process.stderr.readline(), 20)  # the first progress line
        process.send_signal(signal.SIGINT)
        status, out, err = await ended(process)
    assert status == 0, err
    assert "listeners, c=8, think 0.2 s" in out
    (run,) = results.loads((tmp_path / "json").read_bytes())
    assert run.conditions["ended"] == "early"


async def test_the_limit_decides_the_exit_status() -> None:
    async with tone_server() as (url, _):
        options = ["--url", url, "--rate", "20", "--duration", "0.5", "--max-underrun-p95-ms=-1"]
        status, out, err = await ended(await started(*options))
    assert status == 1, out + err


async def test_a_missing_server_is_an_error() -> None:
    status, out, err = await ended(await started("--url", "http://127.0.0.1:9"))
    assert (status, out) == (2, "")
    assert err.startswith("Error: there is no realtime voice server")


def test_invalid_requests_are_refused_before_any_load(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, words in (
        (["--url", "http://example.com"], "not this machine"),
        (["--trace-in", "/nonexistent.json"], "No such file"),
    ):
        assert load.main(arguments) == 2
        assert words in capsys.readouterr().err
    for arguments in (["--rate", "0"], ["--duration", "inf"], ["--mode", "other"], ["--think", "-1"]):
        with pytest.raises(SystemExit):
            load.parse(arguments)


def plan_of(*arguments: str) -> LoadPlan:
    return load.plan_of(load.parse(arguments))


def test_the_same_seed_plans_the_same_load_with_or_without_bursts() -> None:
    plain, again, other = (plan_of("--rate", "5", "--duration", "20", "--seed", seed) for seed in ("1", "1", "2"))
    assert plain == again
    assert plain.arrivals != other.arrivals
    burst = plan_of("--rate", "5", "--duration", "20", "--seed", "1", "--burst-size", "3", "--burst-every", "8")
    assert set(plain.arrivals) < set(burst.arrivals)
    assert len(burst.arrivals) == len(plain.arrivals) + 6


def test_only_an_open_load_has_arrivals() -> None:
    assert plan_of("--mode", "closed", "-c", "3").arrivals == ()
    assert plan_of("--mode", "closed", "-c", "3").users == 3


def test_only_listeners_keep_their_connection_by_default() -> None:
    kept = [plan_of("--mode", mode).keep_connections for mode in ("open", "closed", "listeners")]
    assert kept == [False, False, True]
    assert plan_of("--mode", "closed", "--connections", "user").keep_connections
    assert not plan_of("--mode", "listeners", "--connections", "request").keep_connections


def test_the_help_has_examples_and_modes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        load.parse(["--help"])
    text = capsys.readouterr().out
    for words in ("example, in two shells", "exit status", "open", "closed", "listeners", "--trace-in"):
        assert words in text


def outcome(**fields: Any) -> Outcome:
    ok: dict[str, Any] = {"intended_s": 0, "ended_s": 2, "status": Status.OK}
    return judge(**ok | {"timeline": [Packet(0.1, 1), Packet(2, 1)]} | fields)


def test_the_notes_count_refusals_failures_and_waiting_requests() -> None:
    outcomes = [
        outcome(),
        outcome(status=Status.REFUSED, timeline=[], retry_after_s=5),
        outcome(status=Status.FAILED, reason="it broke"),
        outcome(status=Status.UNFINISHED, timeline=[]),
    ]
    text = "\n".join(load.notes(summarise(outcomes), outcomes))
    assert "retry after 5 s" in text
    assert "failed, 1 times: it broke" in text
    assert "1 without any audio" in text


def test_the_exit_status_depends_on_the_limit() -> None:
    summary = summarise([outcome()])
    assert [load.exit_status(summary, limit) for limit in (None, 100.0, 1000.0)] == [0, 1, 0]
    assert load.exit_status(summarise([]), None) == 1
