"""Terminal: status lines on standard error, and an event loop."""

import asyncio

import pytest

from realtime_tts.cli.terminal import print_status, run


def test_a_status_line_is_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    print_status("Ready")
    assert capsys.readouterr() == ("", "Ready\n")


def test_a_coroutine_is_run_to_its_end() -> None:
    done = []

    async def work() -> None:
        await asyncio.sleep(0)
        done.append(True)

    run(work())
    assert done == [True]
