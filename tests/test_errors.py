"""The code, close code and HTTP status of every error are those of protocol.md."""

import re
from pathlib import Path

from realtime_tts import errors
from realtime_tts.config import schema
from realtime_tts.errors import OperatorError, RealtimeTTSError
from realtime_tts.frontends.native import websocket

PAGE = (Path(__file__).parents[1] / "protocol.md").read_text("utf-8")
MODULES = (errors, schema, websocket)
"""All that define errors of the server."""


def all_errors() -> list[type[RealtimeTTSError]]:
    kinds = {each for module in MODULES for each in vars(module).values() if isinstance(each, type)}
    return [kind for kind in kinds if issubclass(kind, RealtimeTTSError) and kind is not RealtimeTTSError]


def table() -> dict[str, tuple[str, str]]:
    """Close and HTTP columns by code."""
    rows: dict[str, tuple[str, str]] = {}
    for line in PAGE.split("### Errors and closes", 1)[1].split("\n#", 1)[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            rows |= dict.fromkeys(re.findall(r"`(\w+)`", cells[0]), (cells[1], cells[2]))
    return rows


def numbers(cell: str) -> set[int]:
    return {int(number) for number in re.findall(r"\b\d{3,4}\b", cell)}


def test_every_error_of_a_client_is_in_the_table_of_protocol_md_with_its_close_code_and_status() -> None:
    rows = table()
    found: dict[str, set[type[RealtimeTTSError]]] = {}
    for error in all_errors():
        if not issubclass(error, OperatorError):
            found.setdefault(error.code, set()).add(error)
    assert found.keys() == rows.keys()
    for code, kinds in found.items():
        close, status = rows[code]
        assert numbers(close) == {kind.close_code for kind in kinds if kind.close_code is not None}, code
        if any(kind.close_code is None for kind in kinds):
            assert close.startswith(("none", "not accepted", "HTTP only")), code
        assert status == "—" or numbers(status) == {kind.http_status for kind in kinds}, code


def test_codes_are_words_that_a_client_can_compare() -> None:
    for error in all_errors():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", error.code), error
        assert error("why").message == "why"


def test_close_codes_can_be_sent() -> None:
    # RFC 6455, 7.4: 1005, 1006 and 1015 are never sent.
    for error in all_errors():
        assert error.close_code in (None, 1000, 1001, 1002, 1007, 1008, 1009, 1011, 1012, 1013), error


def test_a_failed_sentence_leaves_its_session_open() -> None:
    assert all(error.close_code is None for error in all_errors() if issubclass(error, errors.SynthesisError))


def test_text_that_never_fits_is_not_retryable_and_text_that_must_wait_is() -> None:
    assert not errors.TextTooLong.retryable
    assert errors.TooMuchUnspoken.retryable
    assert errors.TooMuchUnspoken.code == errors.TextTooLong.code == "text_too_long"


def test_a_message_begins_with_its_field() -> None:
    error = errors.InvalidConfig("must be at most 4", param="speed", retry_after_s=1.5)
    assert (error.message, str(error)) == ("speed: must be at most 4", "speed: must be at most 4")
    assert (error.param, error.retry_after_s) == ("speed", 1.5)
    assert errors.Overloaded("full").retry_after_s == 1.0
