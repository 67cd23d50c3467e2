"""Table of answers in virtual time: each mechanism improves on the one before."""

from itertools import pairwise
from pathlib import Path

import pytest

from bench import omni_table
from bench.omni_table import ROWS, Figures, Load


def check_order(concurrency: int) -> dict[str, Figures]:
    figures = {row.name: Load(row, concurrency, 0.02).run() for row in ROWS}
    published = [figures[row.name] for row in ROWS if not row.bounded or row.replicas > 1]
    for one, next_one in pairwise(published):
        assert next_one.requests_per_s > one.requests_per_s
        assert next_one.ttfp_s < one.ttfp_s
        assert next_one.rtf <= one.rtf
    return figures


def test_the_rows_are_in_the_published_order() -> None:
    check_order(5)


@pytest.mark.slow
def test_at_64_users_the_bound_on_a_step_leaves_no_gaps() -> None:
    figures = check_order(64)["+ bound on the Thinker's step"]
    assert figures.underrun_p95_s <= 0.1
    assert figures.ttfp_s <= 0.8
    assert figures.rtf <= 0.47


def test_the_table_states_its_costs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    written = tmp_path / "table.json"
    assert omni_table.main(["-c", "1", "--json", str(written)]) == 0
    output = capsys.readouterr().out
    for row in ROWS:
        assert row.name in output
    assert "Thinker 30 + 1 n ms + 100 us a prompt token" in output
    assert written.stat().st_size
