"""Commands in the test's own process."""

import logging
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from realtime_tts.cli.main import main
from realtime_tts.cli.serve import SIGNALS


@dataclass(frozen=True, slots=True)
class Result:
    status: int
    output: str
    errors: str


Command = Callable[..., Result]


@pytest.fixture
def process_state() -> Iterator[None]:
    """Restores what `serve` changes in its process: logging and signal handlers."""
    root, handlers = logging.getLogger(), {number: signal.getsignal(number) for number in SIGNALS}
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before, level
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def command(process_state: None, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs `realtime-tts ARGUMENTS`."""

    def run(*arguments: str) -> Result:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        assert isinstance(ended.value.code, int)
        return Result(ended.value.code, *capsys.readouterr())

    return run
