"""The benchmark of lost replicas: it loses one, and reports what its listeners hear."""

import json
from pathlib import Path

import pytest

from bench import replicas


@pytest.mark.slow
def test_a_lost_replica_costs_no_audio(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "replicas.json"
    arguments = ["-n", "1", "-c", "4", "--sentences", "1", "--latest", "0.3", "--json", str(file)]
    assert replicas.main(arguments) == 0
    assert "1 replicas lost under 4 listeners" in capsys.readouterr().out
    (result,) = json.loads(file.read_text("utf-8"))
    rows = result["tables"][0]["rows"]
    assert [row[0] for row in rows] == ["of the lost replica", "of the others"]
    assert sum(row[1] for row in rows) == sum(row[6] for row in rows) == 4
