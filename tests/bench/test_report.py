"""The page: it needs nothing from elsewhere, and shows what was measured."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from bench import report, results
from bench.results import Bar, Bars, Line, Plot, Result, Run, Table
from bench.summary import Outcome, Packet, Status, judge


def spoken(*packets: tuple[float, float], intended_s: float = 0.0, ttfa_s: float | None = None) -> Outcome:
    timeline = [Packet(*packet) for packet in packets]
    return judge(intended_s=intended_s, ended_s=timeline[-1].at_s, status=Status.OK, timeline=timeline, ttfa_s=ttfa_s)


RUN = Run(
    "ours <b>",
    (spoken((0.2, 1.0), (0.9, 1.0), ttfa_s=0.3), spoken((1.2, 0.5), (2.5, 1.0), intended_s=1.0)),
    duration_s=3,
    conditions={"command": "python -m bench.load --label '<script>'"},
)


class Loads(HTMLParser):
    """Collects what a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.fetched += [
            value or ""
            for name, value in attrs
            if name in ("src", "href", "srcset", "data", "xlink:href") and not (value or "").startswith("#")
        ]


RESULT = Result(
    bench="bench.some",
    title="Is it <quick>?",
    headline="It is & stays so.",
    conditions={"command": "python -m bench.some --fast", "commit": "abc", "cores": "2"},
    tables=(Table("Some <table>", ("name", "µs"), (("ours", 12.345), ("theirs", None)), "Of one run."),),
    plots=(
        Plot("A plot", "streams", "share", (Line("ours", ((1, 0.1), (10, 0.5))), Line("theirs", ((5, 0.2),)))),
        Plot("On a log axis", "streams", "share", (Line("none", ()),), logarithmic=True),
    ),
    bars=(Bars("Some bars", "µs", (Bar("ours", 3.0, 2.5, 4.0), Bar("theirs", 0.0)), "Lower is better."),),
    notes=("Mind the <gap>.",),
)


@pytest.mark.parametrize("found", [[RUN], [RUN, RUN], [RESULT], [RUN, RESULT]])
def test_it_needs_nothing_from_elsewhere(found: list[Run | Result]) -> None:
    text = report.page(found)
    page = Loads()
    page.feed(text)
    assert page.fetched == []
    assert not page.tags & {"script", "link", "img", "iframe"}
    assert not re.search(r"https?://|url\(|@import", text)
    assert "svg" in page.tags


def test_it_shows_the_figures_and_the_plots() -> None:
    text = report.page([RUN])
    assert "ours &lt;b&gt;" in text
    assert text.count("<svg") == 4
    for words in ("Underrun", "Time to first sound", "Lead over time", "One stream", "ran dry for 800 ms", "50%"):
        assert words in text


def test_a_result_is_shown_with_all_that_it_holds() -> None:
    text = report.page([RESULT])
    assert text.count("<svg") == 3
    assert text.count('points="') == 3
    for words in (
        *("<h1>Is it &lt;quick&gt;?</h1>", "It is &amp; stays so.", "Some &lt;table&gt;", "Of one run."),
        *("<td>12.3</td>", "<td>-</td>", "Mind the &lt;gap&gt;.", "<code>python -m bench.some --fast</code>", "abc"),
        *("Lower is better.", ">3<", ">0<"),
    ):
        assert words in text


def test_each_bench_has_its_part_and_what_all_share_is_told_once() -> None:
    same = {"commit": "abc", "cores": "2"}
    runs = [
        replace(RUN, label=label, conditions=same | {"command": f"python -m bench.{bench}"})
        for label, bench in (("a", "load"), ("b", "other"), ("c", "load"))
    ]
    text = report.page([*runs[:2], RESULT, runs[2]])
    titles = re.findall(r'<section class="part" id="part-\d"><h2>([^<]*)</h2>', text)
    assert titles == [
        "Did any listener run dry? (bench.load)",
        "Did any listener run dry? (bench.other)",
        "Is it &lt;quick&gt;?",
    ]
    assert (
        re.findall(r'href="#(part-\d)"', text) == re.findall(r'id="(part-\d)"', text) == ["part-0", "part-1", "part-2"]
    )
    assert text.count("<dd>abc</dd>") == 1
    assert text.count("<code>python -m bench.load</code>") == 1
    assert "2 runs compared" in text


def test_what_differs_stays_with_its_bench() -> None:
    other = replace(RESULT, conditions=RESULT.conditions | {"cores": "16"})
    text = report.page([RESULT, other])
    assert text.count("<dd>2</dd>") == text.count("<dd>16</dd>") == 1
    assert report.shared([{"a": "1", "b": "2"}, {"a": "1", "b": "3"}, {"a": "1"}]) == {"a": "1"}


def test_runs_are_compared_in_one_plot_and_one_table() -> None:
    text = report.page([RUN, replace(RUN, label="other")])
    assert text.count("<svg") == 2 + 2 * 2
    assert '<section class="part"' not in text
    assert text.count("<td>other</td>") == 1


def test_a_run_without_any_speech_has_a_page_too() -> None:
    refused = judge(intended_s=0, ended_s=0.1, status=Status.REFUSED)
    for outcomes in ((), (refused,)):
        assert "No stream" in report.page([Run("none", outcomes, duration_s=1)])
    with pytest.raises(ValueError, match="no run"):
        report.page([])


def test_the_lead_counts_streams_from_their_first_packet_to_their_last() -> None:
    leads = report.lead_over_time([[Packet(0.0, 1.0), Packet(1.5, 1.0)], [Packet(0.0, 5.0)]])
    assert leads[0] == (0.0, 1.0, 1.0)
    assert leads[-1] == pytest.approx((1.4, -0.4, -0.4))
    assert len(leads) == 15


def test_the_closest_call_is_the_worst_wait_or_the_least_that_was_in_hand() -> None:
    assert report.closest_call_s([Packet(0, 1), Packet(0.4, 1), Packet(1.5, 1)]) == pytest.approx(-0.5)
    assert report.closest_call_s([Packet(0, 1), Packet(1.4, 1), Packet(1.5, 1)]) == pytest.approx(0.4)


def test_a_timeline_tells_what_came_what_was_heard_and_each_wait() -> None:
    came, heard, waits = report.timeline(spoken((1.5, 0.5), (2.5, 1.0), intended_s=1.0))
    assert came == [(0.5, 0), (0.5, 0.5), (1.5, 0.5), (1.5, 1.5)]
    assert heard == [(0.5, 0), (1.0, 0.5), (1.5, 0.5), (2.5, 1.5)]
    assert waits == [(1.0, 1.5)]


def test_runs_that_were_written_are_compared_by_the_command(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(results.dumps(RUN))
    arguments = [str(tmp_path / "a.json")] * 2 + ["--output", str(tmp_path / "out.html")]
    assert report.main(arguments) == 0
    assert "2 runs compared" in (tmp_path / "out.html").read_text("utf-8")


def test_any_mix_of_files_makes_one_page(tmp_path: Path) -> None:
    (tmp_path / "runs.json").write_bytes(b"[" + results.dumps(RUN) + b"," + results.dumps(RUN) + b"]")
    (tmp_path / "some.json").write_bytes(results.dumps(RESULT))
    arguments = [str(tmp_path / "some.json"), str(tmp_path / "runs.json"), "--output", str(tmp_path / "out.html")]
    assert report.main(arguments) == 0
    text = (tmp_path / "out.html").read_text("utf-8")
    assert "2 runs compared" in text
    assert "Is it &lt;quick&gt;?" in text


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text("{}", "utf-8")
    for path in ("a.json", "absent.json"):
        assert report.main([str(tmp_path / path), "--output", str(tmp_path / "out.html")]) == 2
        assert capsys.readouterr().err.startswith("Error: ")
