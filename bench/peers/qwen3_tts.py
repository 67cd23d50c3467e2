"""Our Qwen3-TTS compared with the reference: the results of bench.qwen3_tts_vs_reference, as part of the comparison."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from bench import results
from bench.results import ROOT, Result, Table

PROGRAM = "bench.qwen3_tts_vs_reference"
TIMEOUT_S = 900.0


def load(path: Path) -> Result:
    """A file that the program has written with --json.  Raises OSError, or ValueError if it is something else."""
    for found in results.loads(path.read_bytes()):
        if isinstance(found, Result) and found.bench == PROGRAM:
            return found
    raise ValueError(f"{path} was not written by {PROGRAM} --json")


def measure(python: Path, rounds: int, threads: int, output: Path) -> Result:
    """Runs the program.  Raises subprocess.SubprocessError, OSError, or ValueError."""
    options = ["--reference-python", str(python.absolute()), "--rounds", str(rounds), "--threads", str(threads)]
    command = [sys.executable, "-m", PROGRAM, *options, "--json", str(output)]
    # The exit status is that of its targets, which may be missed; whether it ran is seen by its file.
    subprocess.run(command, cwd=ROOT, stdout=sys.stderr, timeout=TIMEOUT_S, check=False)
    return load(output)


def tables(found: Result) -> list[Table]:
    command = found.conditions.get("command", PROGRAM)
    return [replace(table, title=f"Qwen3-TTS: {table.title}", note=table.note or command) for table in found.tables]
