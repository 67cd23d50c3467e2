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


def table(header: str) -> dict[str, list[str]]:
    """The second cells of the rows of each code."""
    rows: dict[str, list[str]] = {}
    for line in PAGE.split(header, 1)[1].split("\n\n", 1)[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for code in re.findall(r"`(\w+)`", cells[0]):
            rows.setdefault(code, []).append(cells[1])
    return rows


def numbers(cells: list[str]) -> set[int]:
    return {int(number) for cell in cells for number in re.findall(r"\b\d{3,4}\b", cell)}


def test_every_error_of_a_client_is_in_protocol_md_with_its_close_code_and_status() -> None:
    closes, statuses = table("| code | close | when |"), table("| code | status | when |")
    kinds: dict[str, set[type[RealtimeTTSError]]] = {}
    for error in all_errors():
        if not issubclass(error, OperatorError):
            kinds.setdefault(error.code, set()).add(error)
    assert kinds.keys() == closes.keys() | statuses.keys()
    for code, cells in closes.items():
        assert numbers(cells) == {kind.close_code for kind in kinds[code]} - {None}, code
        assert cells[0].startswith("none") or all(kind.close_code for kind in kinds[code]), code
    for code, cells in statuses.items():
        assert numbers(cells) == {kind.http_status for kind in kinds[code]}, code


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
