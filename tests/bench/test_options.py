"""Shared command-line options: defaults in the help, checked numbers."""

import argparse

import pytest

from bench import options


def test_the_help_shows_defaults_but_not_absent_ones(capsys: pytest.CaptureFixture[str]) -> None:
    parser = options.make_parser("bench.some", "First line.\n\n  an indented line")
    parser.add_argument("--rounds", type=int, default=3, help="how often")
    parser.add_argument("--smoke", action="store_true", help="a short run")
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


def test_lanes_are_given_by_stage() -> None:
    assert options.stage_counts("talker=2,code2wav=3") == {"talker": 2, "code2wav": 3}
    for text in ("vocoder=2", "talker=0", "talker", "", "talker=2,"):
        with pytest.raises((argparse.ArgumentTypeError, ValueError)):
            options.stage_counts(text)
