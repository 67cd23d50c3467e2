"""Server processes: the reason of a failed start, and CPU time that includes child processes."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.server_process import Command, NotStarted, cpu_s, free_port, running


async def test_a_server_that_cannot_start_reports_its_output(tmp_path: Path) -> None:
    command = Command((sys.executable, "-c", "raise SystemExit('no such model')"))
    with pytest.raises(NotStarted, match="no such model"):
        async with running(command, free_port(), tmp_path / "log", [0]):
            pass


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_cpu_time_of_children_counts() -> None:
    for wait in ("", "; input()"):
        child = f"import time\nwhile time.process_time() < 0.1: pass\nprint(flush=True){wait}"
        # The second line of output says that the child has ended and was waited for.
        parent = (
            f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}]); print(flush=True); input()"
        )
        with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _line in range(1 if wait else 2):
                process.stdout.readline()
            spent_s = cpu_s(process.pid)
            process.communicate(b"\n\n")
        assert spent_s is not None
        assert spent_s >= 0.1, "running child" if wait else "ended child"
