"""The files that a benchmark writes, and reports that need optional packages."""

import argparse
from pathlib import Path

import pytest

from bench import options, outputs, results
from bench.results import Run


def test_a_report_without_its_packages_is_refused_before_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    assert outputs.report_file("a.html") == Path("a.html")
    monkeypatch.setattr(options, "REPORT_PACKAGES", ("no_such_package",))
    with pytest.raises(argparse.ArgumentTypeError, match="pip install"):
        outputs.report_file("a.html")


@pytest.mark.usefixtures("empty_charts")
def test_results_and_report_are_written(tmp_path: Path) -> None:
    found, shown = [Run("of the file", (), 1.0)], [Run("of the report", (), 1.0)]
    args = argparse.Namespace(json=tmp_path / "a.json", report=tmp_path / "a.html")
    outputs.write_outputs(args, found, reported=shown)
    assert results.loads(args.json.read_bytes()) == tuple(found)
    assert "of the report" in args.report.read_text("utf-8")
    outputs.write_outputs(argparse.Namespace(json=None, report=None), found)
