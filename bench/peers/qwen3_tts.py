"""Our Qwen3-TTS against the reference: what bench.qwen3_tts_vs_reference finds, to stand beside the servers."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from bench import results
from bench.results import ROOT, Result, Table

PROGRAM = "bench.qwen3_tts_vs_reference"
TIMEOUT_S = 900.0


def load(path: Path) -> Result:
    """What that program has written with --result.  Raises OSError, or ValueError where it is something else."""
    for found in results.loads_any(path.read_bytes()):
        if isinstance(found, Result) and found.bench == PROGRAM:
            return found
    raise ValueError(f"{path} is not what {PROGRAM} --result writes")


def measure(python: Path, rounds: int, threads: int, output: Path) -> Result:
    """Runs that program.  Raises subprocess.SubprocessError, OSError, or ValueError."""
    options = ["--reference-python", str(python.absolute()), "--rounds", str(rounds), "--threads", str(threads)]
    command = [sys.executable, "-m", PROGRAM, *options, "--result", str(output)]
    # Its exit status says whether its own targets were met, not whether it ran: the file says that.
    subprocess.run(command, cwd=ROOT, stdout=sys.stderr, timeout=TIMEOUT_S, check=False)
    return load(output)


def tables(found: Result) -> list[Table]:
    told = found.conditions.get("command", PROGRAM)
    return [replace(table, title=f"Qwen3-TTS: {table.title}", note=table.note or told) for table in found.tables]
