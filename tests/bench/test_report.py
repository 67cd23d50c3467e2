"""Reports: one self-contained file with all figures, plots and conditions."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from bench import report, results
from bench.results import Bar, Bars, Line, Plot, Result, Run, Table
from bench.summary import Outcome, Packet, ServerFigures, Status, judge


def spoken(*packets: tuple[float, float], intended_s: float = 0.0) -> Outcome:
    return judge(
        intended_s=intended_s,
        sent_s=intended_s,
        ended_s=packets[-1][0],
        status=Status.OK,
        timeline=[Packet(*packet) for packet in packets],
        ttfa_s=0.3,
        server=ServerFigures(0.2, 0.0),
    )


RUN = Run(
    "ours <b>",
    (spoken((0.2, 1.0), (0.9, 1.0)), spoken((1.2, 0.5), (2.5, 1.0), intended_s=1.0)),
    duration_s=3,
    conditions={"command": "python -m bench.load --label '<script>'"},
)
RESULT = Result(
    bench="bench.some",
    title="Speed <of> it",
    headline="It is & stays high.",
    conditions={"command": "python -m bench.some --fast", "commit": "abc", "cores": "2"},
    tables=(Table("Some <table>", ("name", "µs"), (("ours", 12.345), ("theirs", None)), "Of one run."),),
    plots=(Plot("A plot", "streams", "share", (Line("ours", ((1, 0.1), (10, 0.5))),), "A note of it."),),
    bars=(Bars("Some bars", "µs", (Bar("ours", 3.0, 2.5, 4.0),), "Lower is better."),),
    notes=("Mind the <gap>.",),
)


class Page(HTMLParser):
    """What a browser would load, and the elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loaded += [
            value or ""
            for name, value in attrs
            if name in ("src", "href", "srcset", "data", "xlink:href") and not (value or "").startswith("#")
        ]


def test_a_report_is_self_contained() -> None:
    page = Page(text := report.render([RUN, RESULT]))
    assert page.loaded == []
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert not re.search(r"@import|url\((?!#)", text)
    # SVG names its XML namespaces, which are not loaded.
    assert set(re.findall(r"https?://[\w.]+", text)) <= {"http://www.w3.org"}


def test_a_single_run_shows_its_key_figures_and_four_plots() -> None:
    text = report.render([RUN])
    assert text.count("<svg") == 4
    for words in (
        *("ours &lt;b&gt;", "<b>760 ms</b>", "Underrun", "Time to first audio", "Lead over time", "Worst stream"),
        "client and server differ by",
    ):
        assert words in text, words
    assert "<script>" not in text


def test_a_result_is_shown_completely() -> None:
    text = report.render([RESULT])
    assert text.count("<svg") == 2
    for words in (
        *("<h1>Speed &lt;of&gt; it</h1>", "It is &amp; stays high.", "Some &lt;table&gt;", "Of one run."),
        *("<td>12.3</td>", "<td>-</td>", "Mind the &lt;gap&gt;.", "python -m bench.some --fast", "abc"),
        *("A note of it.", "Lower is better."),
    ):
        assert words in text, words


@pytest.mark.usefixtures("empty_charts")
def test_each_benchmark_has_a_section_and_common_conditions_are_shown_once() -> None:
    same = {"commit": "abc", "cores": "2"}
    runs = [
        replace(RUN, label=label, conditions=same | {"command": f"python -m bench.{bench}"})
        for label, bench in (("a", "load"), ("b", "other"), ("c", "load"))
    ]
    text = report.render([*runs[:2], RESULT, runs[2]])
    assert re.findall(r"<h2>([^<]*)</h2>", text) == [
        "Playback continuity under load (bench.load)",
        "Playback continuity under load (bench.other)",
        "Speed &lt;of&gt; it",
    ]
    targets = re.findall(r'href="#(section-\d)"', text)
    assert targets == re.findall(r'id="(section-\d)"', text) == ["section-1", "section-2", "section-3"]
    assert text.count("<dd>abc</dd>") == 1
    assert text.count(">python -m bench.load<") == 1
    assert "2 runs compared" in text


@pytest.mark.usefixtures("empty_charts")
def test_different_conditions_stay_with_their_benchmark_or_run() -> None:
    text = report.render([RESULT, replace(RESULT, conditions=RESULT.conditions | {"cores": "16"})])
    assert text.count("<dd>2</dd>") == text.count("<dd>16</dd>") == 1
    runs = [replace(RUN, label=label, conditions={"device": label * 2, "cores": "2"}) for label in "ab"]
    text = report.render(runs)
    assert text.count("<td>aa</td>") == text.count("<td>bb</td>") == text.count("<dd>2</dd>") == 1
    assert report.shared([{"a": "1", "b": "2"}, {"a": "1", "b": "3"}, {"a": "1"}]) == {"a": "1"}


@pytest.mark.usefixtures("empty_charts")
def test_runs_without_audio_have_a_report() -> None:
    refused = judge(intended_s=0, ended_s=0.1, status=Status.REFUSED)
    for outcomes in ((), (refused,)):
        assert "No stream" in report.render([Run("none", outcomes, duration_s=1)])
    with pytest.raises(ValueError, match="no results"):
        report.render([])


@pytest.mark.usefixtures("empty_charts")
def test_the_command_combines_files(tmp_path: Path) -> None:
    (tmp_path / "runs.json").write_bytes(results.dumps([RUN, RUN]))
    (tmp_path / "some.json").write_bytes(results.dumps([RESULT]))
    arguments = [str(tmp_path / "some.json"), str(tmp_path / "runs.json"), "--output", str(tmp_path / "out.html")]
    assert report.main(arguments) == 0
    text = (tmp_path / "out.html").read_text("utf-8")
    assert "2 runs compared" in text
    assert "Speed &lt;of&gt; it" in text


def test_the_command_reports_invalid_files_and_missing_packages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.json").write_text("{}", "utf-8")
    arguments = ["--output", str(tmp_path / "out.html")]
    for name in ("a.json", "absent.json"):
        assert report.main([str(tmp_path / name), *arguments]) == 2
        assert capsys.readouterr().err.startswith("Error: ")
    monkeypatch.setattr(report, "report_is_possible", lambda: False)
    assert report.main([str(tmp_path / "a.json"), *arguments]) == 2
    assert "pip install" in capsys.readouterr().err
