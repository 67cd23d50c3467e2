"""Logging: lines have their session id, and contain neither secrets nor users' text."""

import asyncio
import gc
import io
import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_tts.clock import MonotonicClock
from realtime_tts.engine.api import Submit
from realtime_tts.engine.executors.engine_thread import EngineThread
from realtime_tts.engine.models import tone
from realtime_tts.engine.stage import StageInput
from realtime_tts.errors import CannotListen, InvalidConfig
from realtime_tts.ops import logs
from realtime_tts.session.limits import SessionLimits
from tests.fakes import FakeClient, FakeEngine, raises_for, until, wrapped
from tests.session.harness import make_runner

SAID = "My PIN is four two four two."
log = logging.getLogger("realtime_tts.tests")


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("realtime_tts")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


class Written(io.StringIO):
    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]


def written(*, as_json: bool = True, level: str = "info", log_text: bool = False) -> Written:
    stream = Written()
    logs.configure(level=level, json=as_json, log_text=log_text, stream=stream)
    return stream


def test_a_json_line_has_time_level_logger_and_fields() -> None:
    stream = written()
    log.info("%d sessions", 3, extra={"waiting": 4})
    (line,) = stream.lines
    assert line.pop("timestamp").endswith("Z")
    assert line == {"level": "info", "logger": "realtime_tts.tests", "message": "3 sessions", "waiting": 4}


def test_a_console_line_has_no_colours_without_a_terminal() -> None:
    stream = written(as_json=False)
    log.warning("%d sessions", 3)
    (line,) = stream.getvalue().splitlines()
    assert "warning" in line
    assert "3 sessions" in line
    assert "\x1b" not in line  # no terminal, no colours


def test_lines_below_the_level_are_not_logged() -> None:
    for level, count in (("debug", 4), ("info", 3), ("warning", 2), ("error", 1)):
        stream = written(level=level)
        for write in (log.debug, log.info, log.warning, log.error):
            write("line")
        assert len(stream.lines) == count, level


async def test_the_lines_of_a_task_and_of_its_tasks_have_the_session_id() -> None:
    stream = written()

    async def inner() -> None:
        log.info("inner")

    async def session(name: str) -> None:
        logs.bind_session(name)
        await asyncio.sleep(0)
        log.info("outer")
        await asyncio.create_task(inner())

    await asyncio.gather(session("a"), session("b"))
    log.info("no session")
    found = sorted((line["message"], line.get("session_id", "-")) for line in stream.lines)
    assert found == [("inner", "a"), ("inner", "b"), ("no session", "-"), ("outer", "a"), ("outer", "b")]


def test_fields_with_private_values_are_withheld() -> None:
    for name in ("text", "Text", "sentence_text", "ref_audio", "key", "token", "Authorization"):
        for as_json in (True, False):
            stream = written(as_json=as_json)
            log.info("line", extra={name: SAID})
            assert SAID not in stream.getvalue(), name
            assert logs.WITHHELD in stream.getvalue(), name


def test_of_other_values_only_the_type_is_shown() -> None:
    stream = written()
    log.info("line", extra={"frame": {"text": SAID}, "raw": SAID.encode(), "error": ValueError(SAID)})
    assert SAID not in stream.getvalue()
    assert stream.lines[0]["frame"] == "(dict)"


def test_keys_are_withheld_even_with_log_text() -> None:
    for log_text in (False, True):
        stream = written(log_text=log_text)
        log.info("line", extra={"token": "t0ps3cret", "text": SAID})
        assert "t0ps3cret" not in stream.getvalue()
        assert (SAID in stream.getvalue()) is log_text


def fail() -> None:
    try:
        raise InvalidConfig(f"no such thing: {SAID}")
    except InvalidConfig as error:
        error.add_note(SAID)
        raise RuntimeError(SAID) from error


def fail_in_a_group() -> None:
    raise ExceptionGroup(SAID, [ValueError(SAID), InvalidConfig(SAID)])


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("failing", [fail, fail_in_a_group])
def test_a_traceback_shows_the_code_and_not_the_text(failing: Any, as_json: bool) -> None:
    stream = written(as_json=as_json)
    try:
        failing()
    except Exception as error:
        log.exception("sentence failed: %s", error)
    text = stream.getvalue()
    assert SAID not in text
    assert failing.__name__ in text
    assert "InvalidConfig (invalid_config)" in text


def test_with_log_text_a_traceback_is_complete() -> None:
    stream = written(log_text=True)
    try:
        fail()
    except RuntimeError as error:
        log.exception("failed: %s", error)
    assert stream.getvalue().count(SAID) >= 3


def test_an_endless_chain_of_causes_is_limited() -> None:
    one, two = ValueError("1"), ValueError("2")
    one.__cause__, two.__cause__ = two, one
    assert logs.traceback_text(one, with_text=False).count("ValueError") == logs.MAX_CHAIN


def test_an_operator_s_error_is_shown_in_full() -> None:
    stream = written()
    log.error("cannot start: %s", CannotListen("port 80 is taken"))
    assert stream.lines[0]["message"] == "cannot start: port 80 is taken"


def test_messages_of_other_packages_are_withheld() -> None:
    stream = written()
    logging.getLogger("phonemizer").warning("words count mismatch on %r", SAID)
    logging.getLogger("g2p").error(f"cannot read {SAID}")
    assert SAID not in stream.getvalue()
    assert len(stream.lines) == 2


@pytest.mark.parametrize("as_json", [True, False])
def test_a_line_that_cannot_be_written_reports_its_place_and_not_its_text(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = written(as_json=as_json)
    log.error("%d apples", SAID)
    assert SAID not in stream.getvalue() + capsys.readouterr().err
    assert "test_logs.py" in stream.getvalue()


def test_a_closed_stream_is_ignored(capsys: pytest.CaptureFixture[str]) -> None:
    stream = written()
    stream.close()
    log.error("the stream is closed")
    assert capsys.readouterr().err == ""


@given(st.text(st.characters()))
@settings(max_examples=30)
def test_no_text_can_forge_a_second_line(text: str) -> None:
    for as_json in (True, False):
        stream = written(as_json=as_json)
        log.info("said %s", text, extra={"origin": text})
        assert len(stream.getvalue().splitlines()) == 1
        assert "\x1b" not in stream.getvalue()


async def test_the_error_of_a_lost_task_is_logged_without_its_text() -> None:
    stream = written()
    loop = asyncio.get_running_loop()
    logs.watch_loop(loop)

    async def failing() -> None:
        fail()

    tasks = [asyncio.create_task(failing())]
    await asyncio.wait(tasks)
    tasks.clear()
    gc.collect()
    await until(lambda: bool(stream.getvalue()))
    assert SAID not in stream.getvalue()
    assert "never retrieved" in stream.getvalue()
    loop.set_exception_handler(None)


def with_a_fault(_batch: Sequence[StageInput]) -> None:
    raise RuntimeError(f"cannot speak {SAID!r}")


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("fault", [raises_for(SAID), with_a_fault])
async def test_a_sentence_that_fails_is_logged_without_its_text(fault: Any, as_json: bool) -> None:
    """In a whole session with a real engine, whose stage quotes the sentence in its error."""
    stream = written(as_json=as_json, level="debug")
    clock = MonotonicClock()
    engine = EngineThread(wrapped(tone.build(), "talker", fault), clock)
    engine.start()
    client = FakeClient()
    serving = asyncio.create_task(make_runner(client, engine, SessionLimits(), clock).run())
    client.sends(type="input.text", text=SAID)
    client.sends(type="input.done")
    await until(lambda: "session.done" in client.received_types())
    client.disconnects()
    await serving
    await engine.stop()
    assert "stage talker failed" in stream.getvalue()
    assert "RuntimeError" in stream.getvalue()
    assert SAID not in stream.getvalue()
    assert "PIN" not in stream.getvalue()


async def test_an_unexpected_error_in_a_session_is_logged_without_its_text() -> None:
    stream = written()

    class Broken(FakeEngine):
        def send(self, command: Any, sink: Any = None) -> None:
            if isinstance(command, Submit):
                raise RuntimeError(f"cannot accept {command}")

    client = FakeClient()
    serving = asyncio.create_task(make_runner(client, Broken(), SessionLimits(), MonotonicClock()).run())
    client.sends(type="input.text", text=SAID)
    client.sends(type="input.done")
    await until(lambda: any(isinstance(frame, tuple) for frame in client.received))
    await serving
    assert stream.getvalue()
    assert "PIN" not in stream.getvalue()
