"""Fixtures of the benchmark tests."""

import pytest

from bench import charts


@pytest.fixture
def empty_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the drawing of charts, for tests of what is around them."""
    for name in ("draw_plot", "draw_bars"):
        monkeypatch.setattr(charts, name, lambda _plot: "<svg></svg>")
