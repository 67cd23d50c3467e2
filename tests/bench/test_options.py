"""Shared command-line options: defaults in the help, checked numbers, and reports that need optional packages."""

import argparse
from pathlib import Path

import pytest

from bench import options, results
from bench.results import Run


def test_the_help_shows_defaults_but_not_absent_ones(capsys: pytest.CaptureFixture[str]) -> None:
    parser = options.make_parser("bench.some", "First line.\n\n  an indented line")
    parser.add_argument("--rounds", type=int, default=3, help="how often")
    parser.add_argument("--smoke", action="store_true", help="a short run")
    options.add_outputs(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--help"])
    out = capsys.readouterr().out
    assert "usage: python -m bench.some" in out
    assert "\n  an indented line\n" in out
    assert "how often (default: 3)" in out
    assert "(default: None)" not in out
    assert "(default: False)" not in out


def test_numbers_are_checked() -> None:
    assert (options.positive("0.5"), options.positive_int("2")) == (0.5, 2)
    for parse, texts in ((options.positive, ("0", "-1", "inf", "nan")), (options.positive_int, ("0", "-1"))):
        for text in texts:
            with pytest.raises(argparse.ArgumentTypeError, match="positive"):
                parse(text)


def test_a_report_without_its_packages_is_refused_before_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    assert options.report_file("a.html") == Path("a.html")
    monkeypatch.setattr(options, "REPORT_PACKAGES", ("no_such_package",))
    with pytest.raises(argparse.ArgumentTypeError, match="pip install"):
        options.report_file("a.html")


@pytest.mark.usefixtures("empty_charts")
def test_results_and_report_are_written(tmp_path: Path) -> None:
    found, shown = [Run("of the file", (), 1.0)], [Run("of the report", (), 1.0)]
    args = argparse.Namespace(json=tmp_path / "a.json", report=tmp_path / "a.html")
    options.write_outputs(args, found, reported=shown)
    assert results.loads(args.json.read_bytes()) == tuple(found)
    assert "of the report" in args.report.read_text("utf-8")
    options.write_outputs(argparse.Namespace(json=None, report=None), found)
